"""transformers in its worker beside the reference engine: the same texts, and for DFlash the same steps."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.lab.catalogue import MODELS
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
    count = bench.assert_matched_says_the_same()
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


def test_a_drafter_of_sliding_layers_drafts_as_in_the_authors_code(tmp_path: Path) -> None:
    """The lab drafter, made to look 32 tokens far both ways; transformers never narrows the last blocks."""
    config = json.loads((MODELS / "dflash" / "config.json").read_text(encoding="utf-8"))
    layers = {"layer_types": ["sliding_attention"] * 2, "is_causal": False}
    window = {"sliding_window": 32, "use_sliding_window": True}
    (tmp_path / "config.json").write_text(json.dumps({**config, **layers, **window}))
    (tmp_path / "model.safetensors").symlink_to(MODELS / "dflash" / "model.safetensors")
    content = spec_of("lab").model_dump(mode="json", exclude_unset=True)
    arms = {name: arm for name, arm in content["arms"].items() if arm["method"] in ("ar", "dflash")}
    for arm in arms.values():
        if "draft" in arm:
            arm["draft"] = str(tmp_path)
    spec = Spec.model_validate({**content, "arms": arms})
    for bench in benched(transformers.make, spec):
        native = ask(bench.runner, bench.arm("dflash"), bench.requests)
        upstream = ask(bench.runner, bench.arm("dflash-upstream"), bench.requests)
        assert native.texts == upstream.texts == bench.plain.texts
        plain = ask(bench.engine, bench.arm("dflash"), bench.requests)
        assert native.tau == pytest.approx(plain.tau, rel=0.02)
        for mine, theirs in zip(native.answers, upstream.answers, strict=True):
            assert mine.steps is not None
            assert theirs.steps is not None
            whole = _before(mine.steps.committed, 64 - 16)
            assert whole == _before(theirs.steps.committed, 64 - 16)
            assert sum(whole) > 0


def _before(committed: Sequence[int], tokens: int) -> list[int]:
    """Return the steps that began with fewer than `tokens` committed, the prefill's counted."""
    begun = accumulate(committed, initial=1)
    return [count for count, done in zip(committed, begun, strict=False) if done <= tokens]
