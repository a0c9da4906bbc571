"""Whether a visit was what it is taken for: its arm's settings, its counters and its answers, held together.

What `mislabelled` finds makes a visit no measurement of its arm (`invalid` in `Totals.backend`); all else is doubt
about a figure (`complaints`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dflash_bench.plan import PlannedArm
from dflash_bench.records.schema import Acceptance, Answer
from dflash_bench.runners.acceptance.canonical import check, pooled

COMPARED = {"steps": "verify steps", "drafted": "drafts", "accepted": "accepted drafts"}
MOST_BROKEN = 3


def mislabelled(
    arm: PlannedArm,
    backend: Mapping[str, Any],
    counted: Acceptance | None,
    answers: Sequence[Answer],
    would_tell: bool,
) -> list[str]:
    """Return sentences on a server that does not do what `arm` is called, by what it says, counts and answers.

    `would_tell`: a server that drafts would have shown it, in `counted` or with each answer.
    """
    drafts_told = backend.get("num_speculative_tokens")
    told = [each for each in (counted, *(a.acceptance for a in answers)) if each is not None]
    if arm.method == "ar" and any(each.drafted or each.steps for each in told):
        return [f"arm {arm.name} is plain decoding, and its server tells of drafts: it speculates"]
    silent = not told and drafts_told is None and backend.get("spec_method") is None
    if arm.method != "ar" and would_tell and silent and _has_decoded(answers):
        return [f"arm {arm.name} drafts, and its server tells of no drafts: it does not speculate"]
    asked = arm.num_draft_tokens
    if asked is not None and drafts_told is not None and asked != drafts_told:
        return [
            f"arm {arm.name} asks for {asked} drafts a step, and its server makes {drafts_told}"
        ]
    return []


def incoherent(counted: Acceptance | None, answers: Sequence[Answer]) -> list[str]:
    """Return sentences on records of acceptance that break their own identities, three of the answers' at most."""
    found = [
        f"the acceptance of {answer.request} cannot be: {broken}"
        for answer in answers
        if answer.acceptance is not None
        for broken in check(answer.acceptance, answer.output_tokens)
    ]
    # The server's own sum of tokens is in its counters' record; the answers' may have been cut at a stop since.
    of_all = [] if counted is None else check(counted)
    return [
        *found[:MOST_BROKEN],
        *(f"the acceptance that the counters tell cannot be: {broken}" for broken in of_all),
    ]


def _has_decoded(answers: Sequence[Answer]) -> bool:
    """Tell whether any answer is longer than the prefill's token: before that nothing is drafted."""
    return any(answer.error is None and (answer.output_tokens or 0) > 1 for answer in answers)


def foreign(ended: int | None, answers: Sequence[Answer]) -> list[str]:
    """Return a sentence if a server `ended` more requests in a visit than it was asked, of plain decoding too."""
    if (
        ended is None
        or any(answer.error is not None for answer in answers)
        or ended == len(answers)
    ):
        return []
    return [
        f"the server ended {ended} requests in a visit of {len(answers)}: other traffic was on it"
        if ended > len(answers)
        else f"the server counts {ended} ended requests in a visit of {len(answers)}"
    ]


def disagreements(
    counted: Acceptance | None, answers: Sequence[Answer], block_size: int | None
) -> list[str]:
    """Return sentences on what the counters gained and `answers`, a whole visit, do not explain.

    Of a failed request nobody knows what it cost the counters: with one among them nothing is compared.
    """
    if counted is None or any(answer.error is not None for answer in answers):
        return []
    told = [answer.acceptance for answer in answers if answer.acceptance is not None]
    is_told = len(told) == len(answers)
    found = (
        _against_sums(counted, told) if is_told else _against_tokens(counted, answers, block_size)
    )
    reason = "other traffic, or a restart; the counters are not this visit's alone"
    return [f"{sentence}: {reason}" for sentence in found]


def _against_sums(counted: Acceptance, told: Sequence[Acceptance]) -> list[str]:
    total = pooled("answers", told)
    sentences = []
    for name, words in COMPARED.items():
        ours, theirs = getattr(total, name), getattr(counted, name)
        if ours is not None and theirs is not None and ours != theirs:
            sentences.append(f"the counters gained {theirs} {words} and the answers tell {ours}")
    return sentences


def _against_tokens(
    counted: Acceptance, answers: Sequence[Answer], block_size: int | None
) -> list[str]:
    """Hold committed tokens, those dropped past the ends included, against the tokens that came out of steps."""
    if counted.steps is None or counted.accepted is None:
        return []
    committed = counted.steps + counted.accepted
    ours = sum(answer.output_tokens or 0 for answer in answers) - len(answers)
    # A step commits a block at most, and one of its tokens at least is within the text.
    most = None if block_size is None else ours + len(answers) * (block_size - 1)
    if committed < ours or (most is not None and committed > most):
        return [f"the counters gained {committed} committed tokens and the answers hold {ours}"]
    return []
