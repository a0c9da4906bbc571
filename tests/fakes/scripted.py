"""A runner that says what it is told: exact times and acceptances, no model. Nothing in it waits unless asked to.

Each request gives `10 + key % 20` tokens. AR takes one second a token; a drafting arm commits
`accepted + 1` tokens a step, `accepted` cycling over 0..K-1, and takes `STEP_S` seconds a step. Prefill takes
half a second, draft prefill a tenth.
"""

import time
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from dflash_bench.errors import InfrastructureError
from dflash_bench.plan import Cell, Nesting, PlannedArm
from dflash_bench.records.schema import Answer, Phases, Share, Steps, Totals
from dflash_bench.runners.base import Load, Opening, Request
from dflash_bench.spec import Spec
from dflash_bench.workloads.prompts import Message

STEP_S = 1.25
PREFILL_S = 0.5
DRAFT_PREFILL_S = 0.1


class Bytes:
    """A tokenizer whose tokens are the bytes of the text."""

    has_chat_template = False

    def render(self, messages: Sequence[Message]) -> str:
        return "\n".join(f"{message['role']}: {message['content']}" for message in messages)

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode(errors="replace")


class Scripted:
    """The runner. `target` may be `slow` (a request takes 20 ms), `failing` (every third fails) or `server`.

    A `server`'s arms are opened one at a time; `opened` lists them.
    """

    name = "scripted"
    nesting: Nesting = "cell"
    couples_noise = True
    tokenizer = Bytes()
    max_positions = 4096

    def __init__(self, spec: Spec) -> None:
        self.target = spec.target
        self.opened: list[str] = []
        self.openings: list[Opening | None] = []
        self.open_now = 0
        if self.target == "server":
            self.nesting, self.couples_noise = "start", False

    def refusal(self, arm: PlannedArm, cell: Cell) -> str | None:
        if arm.method == "dflash" and cell.batch_size > 8:
            return "batches over 8 are not scripted"
        return None

    def start(self) -> None:
        if self.target == "absent":
            raise InfrastructureError("target: 'absent' cannot be loaded.", remedy="Name another.")

    def models(self) -> dict[str, dict[str, Any]]:
        return {"target": {"id": self.target}}

    def facts(self) -> dict[str, Any]:
        return {"name": self.name}

    def open(self, arm: PlannedArm, opening: Opening | None = None) -> "ScriptedSession":
        self.opened.append(arm.name)
        self.openings.append(opening)
        self.open_now += 1
        return ScriptedSession(arm, self)

    def stop(self) -> None:
        pass


class ScriptedSession:
    """An arm of the scripted runner."""

    def __init__(self, arm: PlannedArm, runner: Scripted) -> None:
        self._arm = arm
        self._runner = runner
        self._target = runner.target
        self._wall_s = 0.0

    def run(self, requests: Sequence[Request], load: Load) -> Iterator[Answer]:
        self._wall_s = 0.0
        for number, request in enumerate(requests):
            if self._target == "slow":
                time.sleep(0.02)
            if self._target == "failing" and number % 3 == 2:
                yield Answer(request=request.id, error="scripted failure")
                continue
            answer = answer_to(request, self._arm.block_size)
            assert answer.window is not None
            self._wall_s += seconds_of(answer.window)
            yield answer

    def totals(self) -> Totals:
        return Totals(wall_s=self._wall_s, window_wall_s=self._wall_s, occupancy=1.0)

    def close(self) -> None:
        self._runner.open_now -= 1


def seconds_of(share: Share) -> float:
    """Return the seconds of a share, prefill included."""
    return sum(getattr(share, name) or 0.0 for name in Phases.model_fields)


def answer_to(request: Request, block_size: int | None) -> Answer:
    """Return the scripted answer of an arm with `block_size` (None: AR)."""
    tokens = 10 + request.key % 20
    block = block_size or 1
    steps: list[tuple[int, int, int, int]] = []
    left = tokens - 1
    for accepted in cycle(range(block)):
        committed = min(accepted + 1, left)
        steps.append((block - 1, committed - 1, committed, accepted + 1 - committed))
        left -= committed
        if not left:
            break
    drafted, accepted_counts, committed_counts, cut = zip(*steps, strict=True)
    draft_prefill_s = DRAFT_PREFILL_S if block_size else 0.0
    step_s = STEP_S if block_size else 1.0
    ids = tuple((request.key + index) % 97 for index in range(tokens))
    return Answer(
        request=request.id,
        output_ids=ids,
        output_text=" ".join(map(str, ids)),
        finish_reason="length",
        ttft_s=PREFILL_S,
        e2e_s=PREFILL_S + draft_prefill_s + step_s * len(steps),
        draft_prefill_s=draft_prefill_s,
        steps=Steps(drafted=drafted, accepted=accepted_counts, committed=committed_counts, cut=cut),
        window=Share(
            tokens=tokens,
            steps=len(steps),
            drafted=sum(drafted),
            accepted=sum(accepted_counts),
            prefill_s=PREFILL_S,
            draft_prefill_s=draft_prefill_s,
            draft_s=0.2 * len(steps) if block_size else 0.0,
            verify_s=len(steps) * (step_s - (0.2 if block_size else 0.0)),
            commit_s=0.0,
            other_s=0.0,
            cpu_s=None,
        ),
    )


def write_spec(folder: Path, **changes: Any) -> Path:
    """Write a small spec on the scripted runner with six prompts of its own; return its path."""
    import json

    import yaml

    prompts = folder / "mine.jsonl"
    prompts.write_text(
        "".join(json.dumps({"id": f"p{n}", "text": f"question {n}"}) + "\n" for n in range(6))
    )
    content: dict[str, Any] = {
        "schema_version": 1,
        "name": "scripted",
        "runner": "scripted",
        "target": "steady",
        "arms": {"ar": {"method": "ar"}, "dflash": {"method": "dflash", "draft": "none"}},
        "workloads": ["./mine.jsonl"],
        "sweep": {"block_size": [4], "batch_size": [1]},
        "design": {"prompts": 6, "rounds": 4},
    }
    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump(content | changes))
    return path
