"""What makes a figure doubtful although it was measured: each has a stable code, a severity, a cause and a remedy.

DFB201 client-bound   the load client was late or busy: times of arrival are its own
DFB202 counters       a backend's counters moved by more or less than our requests
DFB203 prefix-cache   prompt tokens were not computed but kept from before: the prefill measured is none
DFB204 settings       an arm ran under other limits or another graph mode than the baseline: a cost of speculation,
                      in features, that stands in the speedup
DFB206 not its arm    a server that does not do what its arm is called, or that started anew
DFB207 partly told    tau is of some requests: of the others no steps are told

`invalid` keeps a verdict from being HELPS; `warning` and `note` are shown.
"""

from collections.abc import Iterator
from typing import Literal, TypedDict

from dflash_bench.analysis import metrics
from dflash_bench.analysis.backend import cached_tokens, last_state, sentences
from dflash_bench.analysis.frames import Sample
from dflash_bench.analysis.tally import source_of

Severity = Literal["invalid", "warning", "note"]
LATE = (
    0.25  # of a median answer's time, once in a hundred beats: now and then every machine is late
)
BUSY = 0.8  # CPU seconds of the client per second
COMPARED = ("max_requests", "max_batched_tokens", "graph_mode", "async_scheduling", "prefix_cache")


SAID: dict[str, tuple[str, Severity, str]] = {
    "complaints": (
        "DFB202",
        "warning",
        "Let nothing else talk to the server, and look at its log.",
    ),
    "defects": (
        "DFB205",
        "warning",
        "Take another build or mend the drafter's config; the figures hold for this build alone.",
    ),
    "invalid": (
        "DFB206",
        "invalid",
        "Start the server as its arm says, or call the arm what the server does.",
    ),
}
"""Keys of `Totals.backend` whose sentences are doubts: code, severity, remedy."""


class Lint(TypedDict):
    """One doubt."""

    code: str
    severity: Severity
    message: str
    remedy: str


def lints(sample: Sample, baseline: Sample) -> list[Lint]:
    """Return the doubts about an arm in one cell; `baseline` is what it is compared with, itself of the baseline."""
    found = [
        *_client(sample),
        *_said(sample),
        *_prefix_cache(sample),
        *_settings(sample, baseline),
        *_partly_told(sample),
    ]
    return sorted(found, key=lambda lint: lint["code"])


def _client(sample: Sample) -> Iterator[Lint]:
    answer = metrics.percentiles(sample.answered["e2e_s"])["p50"] or 0.0
    lags, busy = sample.visits["lag_p99_s"], sample.visits["client_cpu_share"]
    bound = (lags > LATE * answer) | (busy > BUSY)
    # A hiccup of a machine that others use is not a client that cannot keep up.
    if not len(bound) or bound.sum() * 2 < len(bound):
        return
    yield Lint(
        code="DFB201",
        severity="warning",
        message=f"The load client may be the bottleneck, in {bound.sum()} of {len(bound)} visits: its event loop ran"
        f" up to {1e3 * lags.max():.1f} ms late (p99) and took {100 * busy.max():.0f} % of a core, where a median"
        f" answer takes {1e3 * answer:.1f} ms.",
        remedy="Free a core for the client, or lower sweep.batch_size.",
    )


def _said(sample: Sample) -> Iterator[Lint]:
    """Pass on what backends said in sentences of their own."""
    for key, (code, severity, remedy) in SAID.items():
        for sentence in sentences(sample, key):
            yield Lint(
                code=code, severity=severity, message=f"{_sentence(sentence)}.", remedy=remedy
            )


def _partly_told(sample: Sample) -> Iterator[Lint]:
    if source_of(sample) != "some requests":
        return
    told = int(sample.drafting.told[~sample.requests["failed"].to_numpy()].sum())
    yield Lint(
        code="DFB207",
        severity="warning",
        message=f"Tau is of {told} of {len(sample.answered)} requests: of the others no steps are told.",
        remedy="Leave out stop strings, or take a backend that tells the steps of all.",
    )


def _prefix_cache(sample: Sample) -> Iterator[Lint]:
    kept = cached_tokens(sample)
    if not kept:
        return
    requests = int((sample.answered["cached_tokens"] > 0).sum())
    whose = f" of {requests} requests" if requests else ""
    yield Lint(
        code="DFB203",
        severity="invalid",
        message=f"{kept} prompt tokens{whose} came out of a prefix cache and were not computed.",
        remedy="Turn the server's prefix cache off, or give prompts that share no prefix.",
    )


def _settings(sample: Sample, baseline: Sample) -> Iterator[Lint]:
    here, there = last_state(sample), last_state(baseline)
    for key in COMPARED:
        if key in here and key in there and here[key] != there[key]:
            yield Lint(
                code="DFB204",
                severity="note",
                message=f"{key} is {here[key]}, and {there[key]} in the baseline.",
                remedy="Add an arm {method: ar, matched: METHOD} to see what that costs by itself.",
            )


def _sentence(text: str) -> str:
    """Return a backend's sentence as it stands in a report: with a capital but for names, without its full stop."""
    first = text.partition(" ")[0]
    plain = first.isalpha() and first.islower()
    return (text[:1].upper() + text[1:] if plain else text).rstrip(".")
