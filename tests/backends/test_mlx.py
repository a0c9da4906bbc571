"""MLX in its worker beside the reference engine: the same texts, the same steps, request by request."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dflash_bench.runners import mlx
from dflash_bench.runners.acceptance import canonical
from dflash_bench.spec import Spec
from tests.backends.beside_reference import Bench, ask, benched

pytestmark = pytest.mark.backend

ARMS: dict[str, Any] = {
    "ar": {"method": "ar"},
    "ar-matched": {"method": "ar", "matched": "dflash"},
    "dflash": {"method": "dflash", "draft": "lab"},
    "dflash-b4": {"method": "dflash", "draft": "lab", "block_size": 4},
    "draft_model": {"method": "draft_model", "draft": "lab", "block_size": 5},
}


def spec_of(target: str) -> Spec:
    """Return all arms on the lab models; on markov those that have a drafter for it."""
    arms = {
        name: {**arm, "draft": target} if "draft" in arm else arm
        for name, arm in ARMS.items()
        if target == "lab" or arm["method"] in ("ar", "dflash")
    }
    content = {"name": "x", "runner": "mlx", "target": target, "workloads": ["sample-math"]}
    return Spec.model_validate({**content, "arms": arms})


@pytest.fixture(scope="module", params=["lab", "markov"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from benched(mlx.make, spec_of(request.param))


@pytest.mark.parametrize("name", ["dflash", "dflash-b4", "draft_model"])
def test_texts_and_steps_are_the_reference_engines(
    bench: Bench, record_row: Callable[..., None], name: str
) -> None:
    theirs, ours = bench.assert_same_as_the_engine(name, name, steps=True)
    label = f"{bench.arm(name).method} b{theirs.totals.block_size}, {bench.target}"
    count = len(theirs.answers)
    record_row("mlx", bench.version, label, theirs.tau, ours.tau, count, count)


def test_matched_plain_decoding_says_the_same(
    bench: Bench, record_row: Callable[..., None]
) -> None:
    count = bench.assert_matched_says_the_same()
    label = f"ar matched to dflash, {bench.target}"
    record_row("mlx", bench.version, label, None, None, count, count)


@pytest.mark.parametrize("name", ["int8", "int4"])
def test_arms_of_a_quantized_target_agree(
    bench: Bench, record_row: Callable[..., None], name: str
) -> None:
    if bench.target != "lab":
        pytest.skip("markov has no weights that rounding would change")
    plain, drafted = (
        ask(bench.runner, bench.arm(arm), bench.requests, quantization=name)
        for arm in ("ar", "dflash")
    )
    identical, count = drafted.identical(plain), len(plain.answers)
    # A verify's products are of another shape and round otherwise: a near-tie may fall the other way.
    assert identical >= count - 2
    rounded, whole = plain.totals.peak_memory_bytes, bench.plain.totals.peak_memory_bytes
    assert rounded is not None
    assert whole is not None
    assert rounded < whole
    label = f"dflash b16, lab, {name}"
    record_row("mlx", bench.version, label, drafted.tau, None, identical, count)


@pytest.mark.parametrize("name", ["dflash", "draft_model"])
def test_sampled_answers_keep_the_identities(bench: Bench, name: str) -> None:
    sampled = ask(bench.runner, bench.arm(name), bench.requests, temperature=1.0)
    for answer in sampled.answers:
        assert answer.steps is not None
        assert answer.acceptance is not None
        assert canonical.check(answer.acceptance, len(answer.output_ids or ())) == []
