"""What must hold in every step of every request, whatever is drafted, in whatever batch, wherever a text ends."""

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from dflash_bench.plan import PlannedArm
from dflash_bench.records.schema import Answer
from dflash_bench.runners.base import Load, Request
from dflash_bench.runners.reference import ReferenceRunner, make
from dflash_bench.spec import Rule, Spec

ARMS = {"ar": {"method": "ar"}, "dflash": {"method": "dflash", "draft": "markov"}}
ASKED = st.lists(
    st.tuples(
        st.text("abcd", min_size=1, max_size=6), st.integers(1, 20), st.sampled_from(["", "da"])
    ),
    min_size=1,
    max_size=6,
)


@cache
def runner() -> ReferenceRunner:
    spec = {"name": "x", "target": "markov", "arms": ARMS, "workloads": ["sample-math"]}
    made = make(Spec.model_validate(spec))
    made.start()
    return made


def drafting(method: str, block: int, rule: Rule) -> PlannedArm:
    draft = "markov" if method == "dflash" else None
    return PlannedArm(name=method, method=method, draft=draft, block_size=block, verify=rule)


@given(
    asked=ASKED,
    arm=st.one_of(
        st.just(PlannedArm(name="ar", method="ar")),
        st.builds(
            drafting, st.just("dflash"), st.integers(2, 8), st.sampled_from(["match", "reject"])
        ),
        st.builds(drafting, st.just("ngram"), st.integers(2, 8), st.just("match")),
    ),
    batch=st.integers(1, 4),
    temperature=st.sampled_from([0.0, 1.0]),
)
@settings(max_examples=40, deadline=None)
def test_every_step_is_accounted_for(
    asked: list[tuple[str, int, str]], arm: PlannedArm, batch: int, temperature: float
) -> None:
    requests = [
        Request(
            id=f"r{number}",
            prompt=tuple(runner().tokenizer.encode(text)),
            key=number,
            max_new_tokens=limit,
            stop=(stop,) if stop else (),
        )
        for number, (text, limit, stop) in enumerate(asked)
    ]
    session = runner().open(arm)
    for answer in session.run(requests, Load(batch, temperature)):
        check(answer, batch)
    totals = session.totals()
    assert totals.row_steps is not None
    assert totals.steps is not None
    assert totals.steps <= totals.row_steps <= totals.steps * batch


def check(answer: Answer, batch: int) -> None:
    steps = answer.steps
    assert steps is not None
    assert steps.scheduled is not None
    assert steps.busy is not None
    assert steps.depth == steps.drafted  # chains, all of them
    columns = (
        steps.drafted,
        steps.accepted,
        steps.committed,
        steps.cut,
        steps.scheduled,
        steps.busy,
    )
    for drafted, accepted, committed, cut, scheduled, busy in zip(*columns, strict=True):
        assert scheduled >= 1 + drafted
        assert committed >= 1
        assert committed + cut <= 1 + drafted
        assert accepted == committed - 1
        assert 1 <= busy <= batch
    assert not any(steps.cut[:-1])
    assert answer.output_ids is not None
    assert sum(steps.committed) == len(answer.output_ids) - 1
