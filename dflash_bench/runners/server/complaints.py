"""Whether a visit was what it is taken for: its arm's settings, its counters and its answers, held together."""

from collections.abc import Sequence

from dflash_bench.plan import PlannedArm
from dflash_bench.records.schema import Acceptance, Answer
from dflash_bench.runners.acceptance.canonical import pooled

COMPARED = {"steps": "verify steps", "drafted": "drafts", "accepted": "accepted drafts"}


def mislabelled(
    arm: PlannedArm, drafts_told: int | None, counted: Acceptance | None, answers: Sequence[Answer]
) -> list[str]:
    """Return sentences on a server that does not do what `arm` is called; `drafts_told`: per step, as it says."""
    told = [each for each in (counted, *(a.acceptance for a in answers)) if each is not None]
    if arm.method == "ar" and any(each.drafted for each in told):
        return [f"arm {arm.name} is plain decoding, and its server tells of drafts: it speculates"]
    asked = arm.num_draft_tokens
    if asked is not None and drafts_told is not None and asked != drafts_told:
        return [
            f"arm {arm.name} asks for {asked} drafts a step, and its server makes {drafts_told}"
        ]
    return []


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
