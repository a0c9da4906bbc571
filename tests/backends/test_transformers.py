"""transformers in its worker beside the reference engine: the same texts, and for DFlash the same steps."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dflash_bench.runners import transformers
from dflash_bench.runners.acceptance import canonical
from dflash_bench.spec import Spec
from tests.backends.beside_reference import Bench, ask, benched

pytestmark = pytest.mark.backend

ARMS: dict[str, Any] = {
    "ar": {"method": "ar"},
    "ar-matched": {"method": "ar", "matched": "dflash"},
    "dflash": {"method": "dflash", "draft": "lab"},
    "dflash-upstream": {
        "method": "dflash",
        "draft": "lab",
        "options": {"implementation": "upstream"},
    },
    "draft_model": {"method": "draft_model", "draft": "lab", "block_size": 5},
    "ngram": {"method": "ngram", "block_size": 8},
}


def spec_of(target: str) -> Spec:
    """Return all arms on the lab models; on markov those that have a drafter for it."""
    arms = {
        name: {**arm, "draft": target} if "draft" in arm else arm
        for name, arm in ARMS.items()
        if target == "lab" or arm["method"] in ("ar", "dflash")
    }
    content = {
        "name": "x",
        "runner": "transformers",
        "target": target,
        "workloads": ["sample-math"],
    }
    return Spec.model_validate({**content, "arms": arms})


@pytest.fixture(scope="module", params=["lab", "markov"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from benched(transformers.make, spec_of(request.param))


# The lookup is another one: the engine takes the last run that matches, transformers the first.
@pytest.mark.parametrize(
    ("name", "in_engine", "steps"),
    [
        ("dflash", "dflash", True),
        ("dflash-upstream", "dflash", True),
        ("draft_model", "draft_model", True),
        ("ngram", "ngram", False),
    ],
)
def test_texts_and_steps_are_the_reference_engines(
    bench: Bench, record_row: Callable[..., None], name: str, in_engine: str, steps: bool
) -> None:
    theirs, ours = bench.assert_same_as_the_engine(name, in_engine, steps)
    own = " upstream" if name == "dflash-upstream" else ""
    label = f"{bench.arm(name).method}{own} b{theirs.totals.block_size}, {bench.target}"
    count = len(theirs.answers)
    record_row("transformers", bench.version, label, theirs.tau, ours.tau, count, count)


def test_matched_plain_decoding_says_the_same(
    bench: Bench, record_row: Callable[..., None]
) -> None:
    matched = ask(bench.runner, bench.arm("ar-matched"), bench.requests)
    count = len(matched.answers)
    assert matched.texts == bench.plain.texts
    assert matched.totals.acceptance is None
    assert matched.totals.row_steps == matched.num_tokens - count
    label = f"ar matched to dflash, {bench.target}"
    record_row("transformers", bench.version, label, None, None, count, count)


@pytest.mark.parametrize("name", ["int8", "int4"])
@pytest.mark.parametrize("arm", ["dflash", "dflash-upstream"])
def test_arms_of_a_quantized_target_agree(
    bench: Bench, record_row: Callable[..., None], name: str, arm: str
) -> None:
    if bench.target != "lab":
        pytest.skip("markov has no weights that rounding would change")
    plain = ask(bench.runner, bench.arm("ar"), bench.requests, quantization=name)
    drafted = ask(bench.runner, bench.arm(arm), bench.requests, quantization=name)
    identical, count = drafted.identical(plain), len(plain.answers)
    # A verify's products are of another shape and round otherwise: a near-tie may fall the other way.
    assert identical >= count - 2
    label = f"{arm.replace('-', ' ')} b16, lab, {name}"
    record_row("transformers", bench.version, label, drafted.tau, None, identical, count)


@pytest.mark.parametrize("name", ["dflash", "dflash-upstream", "draft_model", "ngram"])
def test_sampled_answers_keep_the_identities(bench: Bench, name: str) -> None:
    sampled = ask(bench.runner, bench.arm(name), bench.requests, temperature=1.0)
    for answer in sampled.answers:
        # What the lookup's last pass kept of sampled tokens is shown nowhere.
        assert answer.steps is not None or name == "ngram"
        assert answer.acceptance is not None
        assert canonical.check(answer.acceptance, len(answer.output_ids or ())) == []
