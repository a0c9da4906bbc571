"""The contests of `engine.py`: two ways to answer the same prompts, which take turns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median, quantiles
from typing import Any

from transformers import AutoModelForCausalLM

from benchmarks.engine_models import Models
from dflash_bench.engine.registry import build, methods
from dflash_bench.engine.request import Request
from dflash_bench.engine.target import Target
from tests.oracle import native, upstream
from tests.oracle.answers import Answer, accepted, ours
from tests.oracle.native import Native, generated
from tests.oracle.upstream import Upstream

BLOCKS = (8, 16)
SLOTS = 8
DRAFT_MODEL_BLOCK, LOOKUP_BLOCK, LOOKUP_NGRAM = 5, 8, 3

Answers = Mapping[str, Answer]
Run = Callable[[], Answers] | str
"""What answers all prompts; or, in words, why there is nothing to run."""


@dataclass(frozen=True)
class Contest:
    """Two ways to answer the same prompts."""

    model: str
    what: str
    against: str
    ours: Run
    theirs: Run


@dataclass(frozen=True)
class Row:
    """What a contest gave; None where a side could not run.

    A step is one row's; its milliseconds are all wall time, prefills too, divided by the row-steps.
    """

    model: str
    what: str
    against: str
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    ours_tok_s: float | None
    theirs_tok_s: float | None
    ours_step_ms: float | None
    theirs_step_ms: float | None
    ours_tau: float | None
    theirs_tau: float | None
    identical: bool | None
    note: str


def settings_of(models: Models, method: str, block_size: int) -> dict[str, object] | str:
    """Return the settings of one of our methods, or why it cannot run."""
    if method not in methods():
        return "not in this engine"
    if method == "draft_model" and models.draft_model is None:
        return "no draft model at hand"
    folder = {"dflash": models.dflash, "draft_model": models.draft_model}.get(method)
    found: dict[str, object] = {} if method == "ar" else {"block_size": block_size}
    found |= {} if folder is None else {"draft": folder}
    return found | ({"ngram_max": LOOKUP_NGRAM} if method == "ngram" else {})


def engine(
    models: Models,
    target: Target,
    method: str,
    block: int,
    asked: Sequence[Request],
    batch: int = 1,
) -> Run:
    """Return how our loop answers `asked`."""
    settings = settings_of(models, method, block)
    if isinstance(settings, str):
        return settings
    drafter = build(method, target, settings)
    return lambda: ours(target, drafter, asked, batch)


def every(models: Models, run: Callable[[Request], Answer]) -> Run:
    """Return how somebody answers all prompts who takes one at a time."""
    return lambda: {request.id: run(request) for request in models.requests}


def contests(models: Models, target: Target, model: Any) -> Iterator[Contest]:
    """Yield all contests; `model` is the same target as a Hugging Face model, for the others."""
    yield from _against_dflash(models, target, model)
    yield from _against_assisted(models, target, model)
    for method, block in _chains():
        yield Contest(
            models.name,
            f"{label(method, block)}, batch {SLOTS}",
            "ours, batch 1",
            engine(models, target, method, block, models.crowd, SLOTS),
            engine(models, target, method, block, models.crowd),
        )


def label(method: str, block: int) -> str:
    """Name a method and its block size."""
    return method if method == "ar" else f"{method} b{block}"


def _chains() -> list[tuple[str, int]]:
    return [("ar", 1), *(("dflash", block) for block in BLOCKS)]


def _against_dflash(models: Models, target: Target, model: Any) -> Iterator[Contest]:
    opponents: dict[str, Upstream | Native | str] = {
        f"dflash {upstream.VERSION}": (
            Upstream(model, models.dflash) if find_spec("dflash") else "not installed"
        ),
        "transformers": (
            Native(model, models.dflash)
            if find_spec(native.MODULE)
            else "this transformers has no DFlash"
        ),
    }
    for name, opponent in opponents.items():
        for method, block in _chains():
            mine = engine(models, target, method, block, models.requests)
            theirs = opponent if isinstance(opponent, str) else _of(models, opponent, block)
            yield Contest(models.name, label(method, block), name, mine, theirs)


def _of(models: Models, opponent: Upstream | Native, block: int) -> Run:
    return every(models, lambda request: opponent.run(request, block))


def _against_assisted(models: Models, target: Target, model: Any) -> Iterator[Contest]:
    """Yield the two other ways that transformers can draft: with a small model, and by lookup."""
    assisted: Run = "no draft model at hand"
    if models.draft_model is not None:
        assistant: Any = AutoModelForCausalLM.from_pretrained(models.draft_model, dtype=model.dtype)
        # Transformers adapts the number of drafts, and stops at unsure ones, unless told not to.
        assistant.generation_config.num_assistant_tokens = DRAFT_MODEL_BLOCK - 1
        assistant.generation_config.num_assistant_tokens_schedule = "constant"
        assistant.generation_config.assistant_confidence_threshold = 0.0
        assisted = every(models, lambda asked: generated(model, asked, assistant_model=assistant))
    block = DRAFT_MODEL_BLOCK
    mine = engine(models, target, "draft_model", block, models.requests)
    what = label("draft_model", block)
    yield Contest(models.name, what, "transformers, assisted", mine, assisted)

    width: dict[str, Any] = {
        "prompt_lookup_num_tokens": LOOKUP_BLOCK - 1,
        "max_matching_ngram_size": LOOKUP_NGRAM,
    }
    mine = engine(models, target, "ngram", LOOKUP_BLOCK, models.requests)
    lookup = every(models, lambda asked: generated(model, asked, **width))
    what = label("ngram", LOOKUP_BLOCK)
    yield Contest(models.name, what, "transformers, prompt lookup", mine, lookup)


def hold(contest: Contest, repeats: int, clock: Callable[[], float]) -> Row:
    """Let both sides answer in turns, after one uncounted turn each; `clock` tells seconds."""
    sides = (contest.ours, contest.theirs)
    seconds: tuple[list[float], list[float]] = ([], [])
    answers: list[Answers | None] = [None if isinstance(run, str) else run() for run in sides]
    for turn in range(repeats):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            run = sides[side]
            if not isinstance(run, str):
                began = clock()
                answers[side] = run()
                seconds[side].append(clock() - began)
    mine, other = (_figures(s, a) for s, a in zip(seconds, answers, strict=True))
    ratios = [
        (theirs / other["tokens"]) / (ours / mine["tokens"])
        for ours, theirs in zip(*seconds, strict=False)
    ]
    both = answers[0] is not None and answers[1] is not None
    low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else (None, None, None)
    return Row(
        model=contest.model,
        what=contest.what,
        against=contest.against,
        ratio=median(ratios) if ratios else None,
        ratio_low=low,
        ratio_high=high,
        ours_tok_s=mine.get("tok_s"),
        theirs_tok_s=other.get("tok_s"),
        ours_step_ms=mine.get("step_ms"),
        theirs_step_ms=other.get("step_ms"),
        ours_tau=mine.get("tau"),
        theirs_tau=other.get("tau"),
        identical=_texts(answers[0]) == _texts(answers[1]) if both else None,
        note="; ".join(dict.fromkeys(run for run in sides if isinstance(run, str))),
    )


def _figures(seconds: list[float], answers: Answers | None) -> dict[str, Any]:
    if answers is None:
        return {}
    tokens = sum(len(answer.tokens) for answer in answers.values())
    steps = sum(len(answer.committed) for answer in answers.values())
    wall = median(seconds)
    drafted = accepted(answers.values())
    return {
        "tokens": tokens,
        "tok_s": tokens / wall,
        "step_ms": 1e3 * wall / steps,
        "tau": 1 + drafted / steps,
    }


def _texts(answers: Answers | None) -> dict[str, list[int]]:
    return {name: answer.tokens for name, answer in (answers or {}).items()}
