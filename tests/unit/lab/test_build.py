"""The order of the build, and what it says when a stage is unknown or comes too early."""

import re
from pathlib import Path

import pytest
import torch

from dflash_bench.cli.lab import command
from dflash_bench.errors import ConfigError, Interrupted
from dflash_bench.lab import build, cards
from dflash_bench.lab.acceptance import Acceptance
from dflash_bench.lab.catalogue import MODELS
from dflash_bench.lab.measures import (
    DrafterMeasures,
    TargetMeasures,
    label,
    read_drafter,
    read_target,
    steps_of,
    write,
)
from dflash_bench.lab.quality import Quality

TARGET = TargetMeasures(1500, {"chat": 0.25}, {"chat": Quality(24, 50.0, 1.0, 0.0)})
DRAFTER = DrafterMeasures(
    steps=4000,
    num_outputs=250,
    acceptance=[
        Acceptance("chat", 0.0, "block 16", committed=60, steps=10, identical=4, compared=4),
        Acceptance("gsm8k", 0.0, "block 16", committed=40, steps=20, identical=4, compared=4),
    ],
)


def test_an_unknown_stage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no stage 'targets'") as caught:
        build.build(tmp_path, ["targets"])
    assert "Did you mean 'target'?" in caught.value.remedy


@pytest.mark.parametrize(
    ("stage", "first"),
    [
        ("target", "tokenizer"),
        ("outputs", "target"),
        ("dflash", "outputs"),
        ("medusa", "outputs"),
        ("cards", "dflash"),
    ],
)
def test_a_stage_before_its_turn_names_the_one_that_is_missing(
    tmp_path: Path, stage: str, first: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        build.build(tmp_path, [stage], progress=lambda _: None)
    assert caught.value.remedy == f"Run the stage '{first}' first."


def test_measures_come_back_from_their_file(tmp_path: Path) -> None:
    write(TARGET, tmp_path / "target.json")
    write(DRAFTER, tmp_path / "drafter.json")
    assert read_target(tmp_path / "target.json") == TARGET
    assert read_drafter(tmp_path / "drafter.json") == DRAFTER


def test_the_tau_table_pools_steps_and_not_means() -> None:
    assert cards.tau_table(DRAFTER.acceptance).splitlines()[-1] == "| all | 3.33 |"


def test_a_setting_is_named_by_its_shape() -> None:
    assert label({"block_size": 8}, 8) == "block 8"
    assert label({"tree": {}}, 32) == "tree 32"
    assert label({"denoise_steps": 1}, 16) == "block 16, 1 step"
    assert label({"denoise_steps": 4}, 16) == "block 16, 4 steps"


def test_cards_state_the_measures() -> None:
    losses = {**TARGET.losses, "gsm8k": 1.5}
    quality = {**TARGET.quality, "gsm8k": Quality(24, 99.0, 0.75, 0.5)}
    card = cards.target_card(TargetMeasures(1500, losses, quality))
    assert "| `gsm8k` | 1.500 | 99 | 75% | 50% |" in card
    assert "| steps, tokens | 1,500," in card


@pytest.mark.parametrize("name", build.DRAFTERS)
def test_every_drafter_has_a_card(name: str) -> None:
    card = cards.drafter_card(name, DRAFTER)
    assert "8 of 8 outputs are identical to\nplain decoding" in card
    assert "answers to 250 training prompts" in card
    assert "| steps | 4,000 of" in card
    assert f"stages `outputs` and `{name}`" in card


@pytest.mark.parametrize("name", build.DRAFTERS)
def test_the_shipped_card_tells_the_recipe_that_the_trainer_has(name: str) -> None:
    shipped = (MODELS / name / "README.md").read_text(encoding="utf-8")
    steps = re.search(r"\| steps \| ([\d,]+) of", shipped)
    assert steps is not None
    measures = DRAFTER._replace(steps=int(steps[1].replace(",", "")), num_outputs=9600)
    told, written = (
        text.partition("## Measured")[0].split()
        for text in (shipped, cards.drafter_card(name, measures))
    )
    assert told == written


def test_the_draft_model_was_not_trained_in_fp32() -> None:
    assert "bf16 autocast" in cards.drafter_card("draft-model", DRAFTER)
    assert "fp32, one core" in cards.drafter_card("dflash", DRAFTER)


def test_cards_tell_what_was_done_and_not_what_the_constants_say(tmp_path: Path) -> None:
    torch.save({"step": 7}, tmp_path / "dflash.pt")
    assert steps_of(tmp_path / "dflash.pt") == 7
    assert steps_of(tmp_path / "absent.pt") is None


def test_cards_say_nothing_of_what_left_no_trace() -> None:
    assert "| steps" not in cards.target_card(TARGET._replace(steps=None))
    unknown = cards.drafter_card("dflash", DRAFTER._replace(steps=None, num_outputs=None))
    assert "| steps" not in unknown
    assert "answers to training prompts" in unknown


def test_an_output_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    for out in (tmp_path / "taken", tmp_path / "taken" / "below"):
        with pytest.raises(ConfigError, match=r"taken.*: cannot be made: Not a directory"):
            build.build(out, ["tokenizer"])


def test_without_torch_the_build_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dflash_bench.runners.device.find_spec", lambda package: None)
    with pytest.raises(ConfigError, match="torch, which is not installed"):
        command.main(["build", "-o", str(tmp_path / "out")], standalone_mode=False)


def test_an_interrupted_build_can_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "build", stopped)
    with pytest.raises(Interrupted) as caught:
        command.main(["build", "-o", str(tmp_path / "out")], standalone_mode=False)
    assert caught.value.remedy == "Run the same command to go on."


def test_publishing_leaves_the_work_behind(tmp_path: Path) -> None:
    for name in ("target", *build.DRAFTERS, "markov-target", "markov-dflash", "work"):
        (tmp_path / "out" / name).mkdir(parents=True)
    build.publish(tmp_path / "out", tmp_path / "package")
    assert not (tmp_path / "package" / "work").exists()
    assert (tmp_path / "package" / "markov-dflash").is_dir()
