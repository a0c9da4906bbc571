"""`dflash-bench inspect` as a user calls it."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dflash_bench.cli.inspect import command
from dflash_bench.errors import ConfigError

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


def test_a_name_of_ours_is_its_folder_where_it_is_one() -> None:
    done = CliRunner().invoke(command, ["lab-gaussian", "--target", "lab"])
    assert (done.exit_code, "Gaussian noise" in done.output) == (0, True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("lab", "name of 4 drafters of ours"),
        ("labb", "'labb' is no folder"),
        ("./nowhere", "'./nowhere' is no folder"),
    ],
)
def test_what_is_no_checkpoint_is_a_mistake_of_the_user(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        CliRunner().invoke(command, [name], catch_exceptions=False)
