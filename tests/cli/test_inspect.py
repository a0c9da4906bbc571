"""`dflash-bench inspect` as a user calls it."""

import json
from pathlib import Path

from click.testing import CliRunner

from dflash_bench.cli.inspect import command

MODELS = Path(__file__).parents[2] / "dflash_bench" / "lab" / "models"


def test_a_fitting_drafter_is_told_in_full() -> None:
    done = CliRunner().invoke(command, [str(MODELS / "dflash"), "--target", "lab"])
    assert done.exit_code == 0
    assert "z-lab DFlash checkpoint, for `method: dflash`" in done.output
    assert "It fits the target lab." in done.output
    assert "a draft model (Qwen3-0.6B's shape)  1,192.1 MB" in done.output


def test_a_misfit_ends_with_2_and_names_both_sides() -> None:
    done = CliRunner().invoke(command, [str(MODELS / "markov-dflash"), "--target", "lab"])
    assert done.exit_code == 2
    assert "hidden_size 64 expected, 128 found" in done.output


def test_json_has_the_same() -> None:
    done = CliRunner().invoke(command, [str(MODELS / "dflash"), "--format", "json"])
    found = json.loads(done.output)
    assert found["method"] == "dflash"
    assert found["facts"]["mask id"] == "3"
    assert found["misfits"] == []
