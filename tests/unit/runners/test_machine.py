"""A machine without a GPU, one with, and one whose driver is broken are told apart."""

from pathlib import Path

import pytest

from dflash_bench.errors import InfrastructureError
from dflash_bench.runners.machine import Gpu, gpu_states, gpus, parse, variants

ROW = "0, NVIDIA H200, 570.86.15, 143771, 1\n"
MIB = 1024 * 1024


def answers(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str, code: int = 0) -> None:
    """Put an nvidia-smi on the PATH that prints `text` and ends with `code`."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\nexit {code}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_a_gpu_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answers(monkeypatch, tmp_path, ROW)
    assert gpus() == [Gpu(0, "NVIDIA H200", "570.86.15", 143771 * MIB, MIB)]
    assert variants()[0] == "cuda"


def test_memory_that_is_not_told_is_none() -> None:
    assert parse("1, NVIDIA GB10, 580.1, [N/A], [N/A]\n") == [
        Gpu(1, "NVIDIA GB10", "580.1", None, None)
    ]


def test_no_driver_is_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus() == []
    assert "cpu" in variants()
    assert "cuda" not in variants()


@pytest.mark.parametrize(("text", "code"), [("No devices were found\n", 6), ("", 0)])
def test_a_driver_without_a_gpu_is_no_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, code: int
) -> None:
    answers(monkeypatch, tmp_path, text, code)
    assert gpus() == []


def test_a_broken_driver_is_not_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answers(monkeypatch, tmp_path, "NVIDIA-SMI has failed\n", 9)
    with pytest.raises(InfrastructureError, match="exit code 9 and said: NVIDIA-SMI has failed"):
        gpus()


def test_a_gpus_state_is_what_its_driver_prints(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers(monkeypatch, tmp_path, "0, 1980, 2619, 241.30, 41, 0x0000000000000004\n")
    (state,) = gpu_states() or []
    assert state["clocks.sm"] == "1980"
    assert state["throttle_reasons"] == "0x0000000000000004"


def test_an_old_driver_that_knows_another_word_for_throttling_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers(monkeypatch, tmp_path, "0, 1, 2, 3, 4, 0x0\n")
    program = tmp_path / "nvidia-smi"
    told = program.read_text().replace("cat <<", 'case "$*" in *event*) exit 2;; esac\ncat <<')
    program.write_text(told)
    assert (gpu_states() or [{}])[0]["throttle_reasons"] == "0x0"


def test_a_state_that_cannot_be_read_loses_no_measurement(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers(monkeypatch, tmp_path, "broken\n", 9)
    assert gpu_states() is None
    monkeypatch.setenv("PATH", "/nowhere")
    assert gpu_states() is None
