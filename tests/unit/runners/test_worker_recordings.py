"""What real workers said (`tests/recordings/`), read into records: the same texts and steps from every loop."""

import json
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.records.schema import Answer
from dflash_bench.runners.acceptance import canonical
from dflash_bench.runners.worker.report import Origin, answer_of

RECORDINGS = Path(__file__).parents[2] / "recordings"
FILES = sorted(
    [*(RECORDINGS / "mlx").glob("*.json"), *(RECORDINGS / "transformers").glob("*.json")]
)
NAMES = [f"{file.parent.name}/{file.stem}" for file in FILES]


def answers(name: str) -> list[Answer]:
    said: dict[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text(encoding="utf-8"))
    facts = said["loaded"]["facts"]
    origin = Origin(
        source=name,
        first_pass=facts["first_pass"],
        drafts=said["load"]["method"] != "ar",
        block_size=facts["block_size"],
        stop_ids=frozenset(said["load"]["stop_ids"]),
    )
    return [answer_of("r", run["report"], origin, None) for run in said["runs"]]


def test_there_are_recordings_of_both() -> None:
    assert {name.split("/")[0] for name in NAMES} == {"mlx", "transformers"}


@pytest.mark.parametrize("name", NAMES)
def test_the_record_keeps_the_identities(name: str) -> None:
    for answer in answers(name):
        assert answer.output_ids is not None
        assert answer.steps is not None
        assert sum(answer.steps.committed) == len(answer.output_ids) - 1
        if answer.acceptance is not None:
            assert canonical.check(answer.acceptance, len(answer.output_ids)) == []


@pytest.mark.parametrize("name", [name for name in NAMES if "/lab-" in name])
def test_every_loop_says_what_plain_decoding_of_the_other_library_says(name: str) -> None:
    other = "transformers" if name.startswith("mlx") else "mlx"
    said = [answer.output_ids for answer in answers(name)]
    assert said == [answer.output_ids for answer in answers(f"{other}/lab-ar")]


@pytest.mark.parametrize("name", [name for name in NAMES if "dflash" in name])
def test_all_dflash_loops_take_the_same_steps(name: str) -> None:
    model = name.split("/")[1].split("-")[0]
    first = answers(f"mlx/{model}-dflash")
    for mine, theirs in zip(answers(name), first, strict=True):
        assert mine.steps is not None
        assert theirs.steps is not None
        assert mine.steps.committed == theirs.steps.committed


@pytest.mark.parametrize("name", [name for name in NAMES if "draft-model" in name])
def test_a_draft_model_s_first_pass_is_counted_alike(name: str) -> None:
    for mine, theirs in zip(answers(name), answers("mlx/lab-draft-model"), strict=True):
        assert mine.steps is not None
        assert theirs.steps is not None
        assert mine.steps.committed == theirs.steps.committed


@pytest.mark.parametrize("library", ["mlx", "transformers"])
def test_the_known_acceptance_of_markov(library: str) -> None:
    """Its drafter says c each time: a step accepts 0, 0, 1, 0, 0, 1, ... drafts."""
    whole = answers(f"{library}/markov-dflash")[0]
    assert whole.steps is not None
    assert whole.acceptance is not None
    assert whole.steps.accepted == (0, 0, 1) * 9 + (0, 0, 0)
    assert whole.acceptance.accepted == 9 + sum(whole.steps.cut)
    assert canonical.tau(whole.acceptance, 40) == pytest.approx(39 / 30)
