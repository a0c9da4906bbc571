"""What is written down, one JSON object a line in `records.jsonl`.

Three kinds: `visit_start`, one `request` per prompt, and `visit_end`; only visits with an end count.
Null is "not measured", never 0. Seconds end in `_s`. A request's time in a batch is its *share*: the wall
of each step divided among the rows active in it, so that shares sum to the wall of the window, the time in
which all slots were busy (docs/method.md).
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1


class Line(BaseModel):
    """One line of the record file; a request or a visit is named by (visit, attempt)."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    visit: str
    attempt: int


class Steps(BaseModel):
    """One request's steps, in order. After the cut at EOS, stop or limit, `accepted` = `committed` - 1 in each.

    `drafted` is what the drafter proposed; `cut` counts tokens that were verified and then dropped past the end.
    Null where a backend does not tell it: `depth`, the most drafts on a path (of a tree; in a chain all of them), and
    the scheduler's view: `scheduled` tokens of this request in the target's pass (the anchor, the drafts, padding),
    `busy` slots in use in that pass, its own among them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    drafted: tuple[int, ...]
    accepted: tuple[int, ...]
    committed: tuple[int, ...]
    cut: tuple[int, ...]
    depth: tuple[int, ...] | None = None
    scheduled: tuple[int, ...] | None = None
    busy: tuple[int, ...] | None = None


class Acceptance(BaseModel):
    """What drafting gave, summed over verify steps: of one request, or by a server's counters of a whole visit.

    One record for all backends, each one's own bias undone (`runners/acceptance/`); what a backend cannot tell is null.

    source      where it was read, such as `vllm response`
    steps       passes of the target that judged drafts, or in which a drafting arm had none; the prefill is none
    plain_steps of these, the passes without a draft
    drafted, accepted    drafts verified, and those kept by the rule, past the end of the text included
    overshoot   tokens that steps committed and that were then dropped past EOS, a stop or the limit
    accepted_per_position   steps that accepted at least 1, 2, ... drafts
    histogram   steps by the number of drafts accepted, from 0

    Identity: output tokens - 1 (the prefill's) = steps + accepted - overshoot, for each request.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    steps: int | None = None
    plain_steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    overshoot: int | None = None
    accepted_per_position: tuple[int, ...] | None = None
    histogram: tuple[int, ...] | None = None


class Chunks(BaseModel):
    """How an answer arrived in a stream: seconds since it was sent, and tokens, of each chunk that held tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at_s: tuple[float, ...]
    tokens: tuple[int, ...]


class Client(BaseModel):
    """How busy the load client was: how late its event loop ran, and its process's CPU seconds per wall second."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lag_p50_s: float
    lag_p99_s: float
    lag_max_s: float
    cpu_share: float


class Phases(BaseModel):
    """Wall seconds by what they were spent on: the prefill is the target's, all others are decoding.

    A backend that does not split its decoding tells `decode_s`, and the phases inside it are null.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefill_s: float | None = None
    draft_prefill_s: float | None = None
    draft_s: float | None = None
    verify_s: float | None = None
    commit_s: float | None = None
    other_s: float | None = None
    decode_s: float | None = None


class Share(Phases):
    """One request's part of the window: its tokens and steps there, and its share of each phase's wall seconds.

    `tokens` are output tokens, the prefill's own included where that prefill lies in the window; `decode_tokens` are
    those that steps committed, steps + accepted where these are told. `cpu_s` is process CPU time.
    """

    tokens: int
    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    decode_tokens: int | None = None
    cpu_s: float | None = None


class Answer(BaseModel):
    """What one request gave. A failed one has an `error`, a sentence, and nulls; its pair is dropped and counted.

    `output_ids` is null where a backend shows text only; `output_tokens` then is what it counted. `prompt_tokens_told`
    and `cached_tokens` are a server's own count of the prompt, and how many of them it had kept from before.
    `client_queue_s`: due to sent, in an open loop.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    request: str
    output_ids: tuple[int, ...] | None = None
    output_text: str | None = None
    output_tokens: int | None = None
    finish_reason: Literal["eos", "length", "stop"] | None = None
    error: str | None = None
    ttft_s: float | None = None
    e2e_s: float | None = None
    draft_prefill_s: float | None = None
    client_queue_s: float | None = None
    prompt_tokens_told: int | None = None
    cached_tokens: int | None = None
    chunks: Chunks | None = None
    steps: Steps | None = None
    acceptance: Acceptance | None = None
    window: Share | None = None


class RequestRecord(Answer, Line):
    """An answer, and the prompt that it answers."""

    kind: Literal["request"] = "request"
    prompt_sha256: str
    prompt_tokens: int


class VisitStart(Line):
    """An arm enters a cell. `time` is ISO 8601 in UTC; `load_average` the machine's (1, 5, 15 minutes).

    `start` names the start of the backend that the visit belongs to, where several visits share one.
    """

    kind: Literal["visit_start"] = "visit_start"
    cell: str
    arm: str
    round: int
    role: Literal["control_first", "discard", "measure", "control_last"]
    time: str
    load_average: tuple[float, float, float] | None
    start: str | None = None


class Totals(BaseModel):
    """What a visit took as a whole.

    `occupancy`: mean active rows over batch size, over the window's time. `window_phases` sum to `window_wall_s`.
    `block_size`: the most nodes of a verified block, the anchor counted, as the method settled it; null if it drafts
    nothing. `acceptance` is by the backend's counters over the visit. `backend` is what it says of itself
    (`runners/base.py`, STATE).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    wall_s: float
    cpu_s: float | None = None
    window_wall_s: float | None = None
    window_cpu_s: float | None = None
    window_phases: Phases | None = None
    block_size: int | None = None
    occupancy: float | None = None
    steps: int | None = None
    row_steps: int | None = None
    peak_memory_bytes: int | None = None
    kv_bytes_per_token: float | None = None
    acceptance: Acceptance | None = None
    client: Client | None = None
    backend: dict[str, Any] = {}


class VisitEnd(Totals, Line):
    """The totals of a visit that was finished: only such visits count. `gpus` is each GPU's state at its end."""

    kind: Literal["visit_end"] = "visit_end"
    requests: int
    failed: int
    load_average: tuple[float, float, float] | None
    gpus: tuple[dict[str, str], ...] | None = None
