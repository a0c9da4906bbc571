"""What is compared: the tokens of an answer, and how many of them each verification committed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dflash_bench.engine.loop import Admitted, generate
from dflash_bench.engine.methods.base import Drafter
from dflash_bench.engine.registry import build
from dflash_bench.engine.request import Request
from dflash_bench.engine.sampling import Sampling
from dflash_bench.engine.target import Target


@dataclass
class Answer:
    """One greedy answer.

    tokens     all output tokens, the prefill's first
    committed  per verification what it added: accepted drafts and one token of the target's own;
               the prefill is no verification. Cut, like the tokens, where the text ends
    """

    tokens: list[int] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)

    def cut(self, limit: int) -> "Answer":
        """Return the answer as it would be if `limit` tokens had been asked for."""
        committed, room = [], limit - 1
        for count in self.committed:
            if room > 0:
                committed.append(min(count, room))
                room -= count
        return Answer(self.tokens[:limit], committed)


def drafter_of(target: Target, draft: Path, block_size: int) -> Drafter:
    """Build our drafter; block size 1 drafts nothing and is AR."""
    if block_size == 1:
        return build("ar", target, {})
    return build("dflash", target, {"draft": draft, "block_size": block_size})


def ours(
    target: Target, drafter: Drafter, requests: Sequence[Request], batch_size: int
) -> Mapping[str, Answer]:
    """Answer with our loop, greedily; by request id."""
    answers = {request.id: Answer() for request in requests}
    for event in generate(target, drafter, requests, batch_size=batch_size, sampling=Sampling()):
        if isinstance(event, Admitted):
            answers[event.request_id].tokens.append(event.first_token)
            continue
        for row in event.rows:
            assert row.accepted == len(row.tokens) - 1
            answers[row.request_id].tokens += row.tokens
            answers[row.request_id].committed.append(len(row.tokens))
    return answers


def accepted(answers: Iterable[Answer]) -> int:
    """Count the accepted drafts."""
    return sum(count - 1 for answer in answers for count in answer.committed)
