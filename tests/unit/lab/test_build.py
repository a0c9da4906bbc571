"""The order of the build, and what it says when a stage is unknown or comes too early."""

from pathlib import Path

import pytest
import torch

from dflash_bench.cli.lab import command
from dflash_bench.errors import ConfigError, Interrupted
from dflash_bench.lab import build, cards, outputs
from dflash_bench.lab.acceptance import Acceptance
from dflash_bench.lab.measures import Measures, Training, read, training_done, write
from dflash_bench.lab.outputs import Output
from dflash_bench.lab.quality import Quality

MEASURES = Measures(
    training=Training(1500, 250, 4000),
    losses={"chat": 0.25},
    quality={"chat": Quality(24, 50.0, 1.0, 0.0)},
    acceptance=[
        Acceptance("chat", 0.0, 16, committed=60, steps=10, identical=4, compared=4),
        Acceptance("gsm8k", 0.0, 16, committed=40, steps=20, identical=4, compared=4),
    ],
)


def test_an_unknown_stage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no stage 'targets'") as caught:
        build.build(tmp_path, ["targets"])
    assert "Did you mean 'target'?" in caught.value.remedy


@pytest.mark.parametrize(
    ("stage", "first"),
    [("target", "tokenizer"), ("outputs", "target"), ("dflash", "outputs"), ("cards", "dflash")],
)
def test_a_stage_before_its_turn_names_the_one_that_is_missing(
    tmp_path: Path, stage: str, first: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        build.build(tmp_path, [stage], progress=lambda _: None)
    assert caught.value.remedy == f"Run the stage '{first}' first."


def test_measures_come_back_from_their_file(tmp_path: Path) -> None:
    write(MEASURES, tmp_path / "measures.json")
    assert read(tmp_path / "measures.json") == MEASURES


def test_the_tau_table_pools_steps_and_not_means() -> None:
    assert cards.tau_table(MEASURES.acceptance).splitlines()[-1] == "| all | 3.33 |"


def test_cards_state_the_measures() -> None:
    losses = {**MEASURES.losses, "gsm8k": 1.5}
    quality = {**MEASURES.quality, "gsm8k": Quality(24, 99.0, 0.75, 0.5)}
    both = Measures(MEASURES.training, losses, quality, MEASURES.acceptance)
    assert "| `gsm8k` | 1.500 | 99 | 75% | 50% |" in cards.target_card(both)
    assert "8 of 8 outputs are identical to\nplain decoding" in cards.dflash_card(both)


def test_cards_tell_what_was_done_and_not_what_the_constants_say(tmp_path: Path) -> None:
    outputs.write([Output("chat", 0.0, [1], [2])] * 3, tmp_path / "outputs.jsonl")
    torch.save({"step": 7}, tmp_path / "dflash.pt")
    torch.save({"step": 5}, tmp_path / "target.pt")
    training = training_done(tmp_path)
    assert training == Training(target_steps=5, num_outputs=3, dflash_steps=7)
    done = Measures(training, MEASURES.losses, MEASURES.quality, MEASURES.acceptance)
    assert "answers to 3 training prompts" in cards.dflash_card(done)
    assert "| steps | 7 of" in cards.dflash_card(done)
    assert "| steps, tokens | 5," in cards.target_card(done)


def test_cards_say_nothing_of_what_left_no_trace(tmp_path: Path) -> None:
    training = training_done(tmp_path)
    assert training == Training(target_steps=None, num_outputs=None, dflash_steps=None)
    unknown = Measures(training, MEASURES.losses, MEASURES.quality, MEASURES.acceptance)
    write(unknown, tmp_path / "measures.json")
    assert read(tmp_path / "measures.json") == unknown
    assert "| steps" not in cards.target_card(unknown)
    assert "| steps" not in cards.dflash_card(unknown)
    assert "answers to training prompts" in cards.dflash_card(unknown)


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
    for name in ("target", "dflash", "markov-target", "markov-dflash", "work"):
        (tmp_path / "out" / name).mkdir(parents=True)
    build.publish(tmp_path / "out", tmp_path / "package")
    assert not (tmp_path / "package" / "work").exists()
    assert (tmp_path / "package" / "markov-dflash").is_dir()
