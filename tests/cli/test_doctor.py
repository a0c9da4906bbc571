"""`dflash-bench doctor`: what is there, what is missing, and the command that mends it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dflash_bench.assets import names
from dflash_bench.cli import doctor
from dflash_bench.errors import InfrastructureError
from dflash_bench.runners import diagnosis, environments, machine
from dflash_bench.runners.diagnosis import Diagnosis
from dflash_bench.runners.environments import Environment
from dflash_bench.runners.machine import Gpu
from tests.unit.runners.recipes import SMALL

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("DFLASH_BENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(machine, "gpus", list)
    return tmp_path / "home"


def diagnose(name: str, *here: str) -> Diagnosis:
    """Examine one on a machine of the kinds `here`, a plain processor if none is named."""
    return diagnosis.diagnose(name, here or ("cpu",))


def shown(*words: str) -> str:
    done = CliRunner().invoke(doctor.command, words, catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_every_backend_has_its_row() -> None:
    found = json.loads(shown("--format", "json"))
    assert [row["name"] for row in found["backends"]] == names("runners")
    assert found["machine"]["gpus"] == []
    assert found["machine"]["memory_bytes"] >= found["machine"]["memory_free_bytes"] > 0
    text = shown()
    assert "GPU     none" in text
    assert all(f"\n{name}: " in text for name in names("runners"))


def test_a_gpu_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(0, "NVIDIA H200", "570.86.15", 150_000_000_000, None)
    monkeypatch.setattr(machine, "gpus", lambda: [gpu])
    assert "0: NVIDIA H200, driver 570.86.15, memory 150.0 GB, unknown in use" in shown()


def test_doctor_imports_no_torch() -> None:
    code = """
import sys
from dflash_bench.cli import doctor
doctor.command(["--format", "json"], standalone_mode=False)
print([name for name in ("torch", "transformers", "pandas", "aiohttp") if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == "[]"


@pytest.fixture
def recipes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of recipes that stands for ours."""
    folder = tmp_path / "runners"
    folder.mkdir()
    monkeypatch.setattr("dflash_bench.runners.recipe.names", lambda kind: ["small"])
    monkeypatch.setattr("dflash_bench.runners.recipe.asset", lambda kind, name: folder / name)
    return folder


def test_what_is_not_installed_has_its_command(recipes: Path) -> None:
    (recipes / "small.yaml").write_text(yaml.safe_dump(SMALL))
    found = diagnose("small")
    assert (found.status, found.variant) == ("missing", "cpu")
    assert found.fix == "dflash-bench env create small"
    assert found.methods == {"ar": "live", "dflash": "from source"}


def test_a_half_made_environment_is_told(recipes: Path, home: Path) -> None:
    (recipes / "small.yaml").write_text(yaml.safe_dump(SMALL))
    folder = home / "envs" / "small"
    folder.mkdir(parents=True)
    (folder / ".dflash-bench-env").touch()
    assert diagnose("small").lacks == "its environment was begun and not finished"


def test_a_backend_for_another_machine_is_told(recipes: Path) -> None:
    install = {**SMALL["install"], "variants": {"cuda": {}}}
    (recipes / "small.yaml").write_text(
        yaml.safe_dump({**SMALL, "install": install, "start": None})
    )
    found = diagnose("small")
    assert found.status == "elsewhere"
    assert "none of its variants (cuda)" in str(found.lacks)


def test_a_recipe_that_cannot_be_read_is_a_row(recipes: Path) -> None:
    (recipes / "small.yaml").write_text("name: small\nkind: [")
    found = diagnose("small")
    assert found.status == "broken"
    assert "small.yaml, line" in str(found.lacks)


def test_packages_beside_us_are_looked_for(recipes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"torch": "2.10.0", "six": "1.17.0"}
    monkeypatch.setattr(diagnosis, "_version", there.get)
    fix = "pip install 'torch>=2.11' six absent"
    recipe = {"name": "small", "title": "t", "kind": "in_process", "targets": "t", "install": fix}
    (recipes / "small.yaml").write_text(yaml.safe_dump(recipe))
    found = diagnose("small")
    assert (found.status, found.fix) == ("missing", fix)
    assert found.lacks == "torch>=2.11 (found 2.10.0), absent"
    assert found.version == "six 1.17.0"
    there |= {"torch": "2.13.0+cpu", "absent": "1"}
    assert diagnose("small").status == "ready"


def test_a_server_without_our_client_is_not_ready(
    recipes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (recipes / "small.yaml").write_text(
        yaml.safe_dump({**SMALL, "install": None, "start": None, "kind": "openai"})
    )
    assert diagnose("small").status == "ready"
    monkeypatch.setattr(diagnosis, "_version", {"transformers": "5", "aiohttp": "3"}.get)
    found = diagnose("small")
    assert (found.status, found.lacks) == ("missing", "beside dflash-bench prometheus-client")
    assert found.fix == "pip install 'dflash-bench[servers]'"


def test_what_asks_from_here_is_told_beside_the_environment(
    recipes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "_version", {"aiohttp": "3"}.get)
    (recipes / "small.yaml").write_text(yaml.safe_dump(SMALL))
    found = diagnose("small")
    assert found.lacks == "its environment; beside dflash-bench prometheus-client, transformers"
    assert found.fix == "dflash-bench env create small; pip install 'dflash-bench[servers]'"
    worker = {**SMALL, "kind": "worker", "ask": None, "health": None}
    (recipes / "small.yaml").write_text(yaml.safe_dump(worker))
    assert diagnose("small").lacks == "its environment; beside dflash-bench transformers"


def installed(monkeypatch: pytest.MonkeyPatch, variant: str) -> None:
    found = Environment("small", variant, "1.2.3", "", "small", "", ())
    monkeypatch.setattr(environments, "find", lambda name: found)
    monkeypatch.setattr(environments, "mismatch", lambda recipe, found: None)


def test_needs_are_named_whatever_is_installed(
    recipes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (recipes / "small.yaml").write_text(yaml.safe_dump({**SMALL, "needs": "a compiler"}))
    assert diagnose("small").needs == "a compiler"
    installed(monkeypatch, "cpu")
    found = diagnose("small")
    assert (found.status, found.needs) == ("ready", "a compiler")


def test_what_ran_on_a_processor_is_from_source_elsewhere(
    recipes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds: dict[str, dict[str, Any]] = {"cpu": {}, "cuda": {}}
    recipe = {
        **SMALL,
        "methods": {"ar": "live", "dflash": "recorded"},
        "install": {**SMALL["install"], "variants": kinds},
    }
    (recipes / "small.yaml").write_text(yaml.safe_dump(recipe))
    assert diagnose("small").methods == {"ar": "live", "dflash": "recorded"}
    expected = {"ar": "from source", "dflash": "recorded"}
    assert diagnose("small", "cuda", "cpu").methods == expected
    installed(monkeypatch, "cuda")
    assert diagnose("small").methods == expected


def test_a_method_that_a_variant_lacks_is_not_offered_there(recipes: Path) -> None:
    start = {**SMALL["start"], "variants": {"cpu": {"without": ["dflash"]}}}
    (recipes / "small.yaml").write_text(yaml.safe_dump({**SMALL, "start": start}))
    found = diagnose("small")
    assert (found.methods, found.without) == ({"ar": "live"}, ("dflash",))
    assert "  not in variant cpu: dflash" in doctor._text(found)


def test_sglang_offers_no_drafting_on_a_processor() -> None:
    found = diagnose("sglang")
    assert found.methods == {"ar": "live"}
    assert "dflash" in found.without
    on_gpu = diagnose("sglang", "cuda", "cpu")
    assert (on_gpu.methods["ar"], on_gpu.methods["dflash"]) == ("from source", "recorded")


def test_transformers_runs_under_this_python_where_it_has_no_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = {"torch": "2.13.0+cpu", "transformers": "5.23.0"}
    monkeypatch.setattr(diagnosis, "_version", there.get)
    found = diagnose("transformers")
    assert (found.status, found.version) == ("ready", "torch 2.13.0+cpu, transformers 5.23.0")
    assert "under this Python" in str(found.note)
    del there["torch"]
    assert diagnose("transformers").fix == "dflash-bench env create transformers"


def test_a_broken_driver_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def broken() -> list[Gpu]:
        asked.append(1)
        raise InfrastructureError("nvidia-smi ended with exit code 9", remedy="")

    monkeypatch.setattr(machine, "gpus", broken)
    text = shown()
    assert text.count("exit code 9") == 1
    assert "GPU     cannot be asked: nvidia-smi ended with exit code 9" in text
    assert len(asked) == 1
    assert "dflash-bench env create lmdeploy --variant KIND" in text
