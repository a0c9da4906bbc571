"""Answers in OpenAI's format for completions, as it comes from servers: read once for all dialects that speak it.

A stream's events are JSON chunks and a last `[DONE]`; the chunk with `usage` has no choices. Beside the standard, where
a server offers it: `token_ids` in each choice, cumulative `usage` in each chunk (`continuous_usage_stats`), and
`stop_reason`. An event bears tokens if its ids or its usage say so, and never because it has text: a token may have
none, and an event may hold several.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dflash_bench.runners.base import Request
from dflash_bench.runners.dialects.base import Event, FinishReason, Reply, seed_of
from dflash_bench.spec import SamplingSpec

# Of vLLM (abort, error), LMDeploy (abort, error) and TensorRT-LLM (cancelled, timeout).
BROKEN_OFF = ("abort", "aborted", "error", "cancelled", "timeout")


def body(
    request: Request, sampling: SamplingSpec, temperature: float, model: str
) -> dict[str, Any]:
    """Write out the settings of OpenAI's format, and those that its servers share beside it, as a counted stream."""
    return {
        "model": model,
        "prompt": request.text,
        "n": 1,
        "max_tokens": request.max_new_tokens,
        "temperature": temperature,
        "top_p": sampling.top_p,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "seed": seed_of(sampling, request),
        "stop": list(request.stop),
        "top_k": sampling.top_k,
        "min_p": 0.0,
        "repetition_penalty": sampling.repetition_penalty,
        "ignore_eos": False,
        "skip_special_tokens": False,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@dataclass(frozen=True)
class Stream:
    """An answer, whole: what every chunk said, put together. `payloads` are the chunks as they were."""

    text: str
    ids: tuple[int, ...] | None
    chunks: tuple[tuple[float, int], ...]
    first_s: float | None
    last_s: float | None
    finish_reason: str | None
    stop_reason: int | str | None
    usage: Mapping[str, Any]
    payloads: tuple[Mapping[str, Any], ...]
    error: str | None

    @property
    def output_tokens(self) -> int | None:
        """What the server counted, or the ids that it showed."""
        told = self.usage.get("completion_tokens")
        if told is not None:
            return int(told)
        return None if self.ids is None else len(self.ids)

    @property
    def prompt_tokens(self) -> int | None:
        """The server's count of the prompt."""
        told = self.usage.get("prompt_tokens")
        return None if told is None else int(told)

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens that it had kept from before."""
        told = (self.usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        return None if told is None else int(told)


@dataclass
class _Reading:
    """What was read so far."""

    texts: list[str] = field(default_factory=list)
    ids: list[int] | None = None
    chunks: list[tuple[float, int]] = field(default_factory=list)
    num_told: int = 0
    first_s: float | None = None
    last_s: float | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    payloads: list[Mapping[str, Any]] = field(default_factory=list)

    def take(self, at_s: float, payload: Mapping[str, Any]) -> None:
        """Add one chunk."""
        self.payloads.append(payload)
        usage = payload.get("usage")
        choices = payload.get("choices") or []
        if usage:
            self.usage = usage
        if not choices:
            return
        choice = choices[0]
        delta = choice.get("delta") or choice.get("message") or {}
        parts = (choice.get("text"), delta.get("reasoning_content"), delta.get("content"))
        text = "".join(part for part in parts if part)
        ids = choice.get("token_ids")
        tokens = 0
        if ids is not None:
            self.ids = [*(self.ids or []), *ids]
            tokens = len(ids)
        elif usage:
            tokens = int(usage["completion_tokens"]) - self.num_told
        self.num_told += tokens
        self.texts.append(text)
        if tokens:
            self.chunks.append((at_s, tokens))
        if tokens or text:
            self.first_s = at_s if self.first_s is None else self.first_s
            self.last_s = at_s
        if choice.get("finish_reason"):
            self.finish_reason = choice["finish_reason"]
            self.stop_reason = choice.get("stop_reason")


def read(events: Sequence[Event]) -> Stream:
    """Put an answer together; what went wrong is in its `error`, a sentence."""
    reading = _Reading()
    chunks, error = objects(events)
    for at_s, chunk in chunks:
        reading.take(at_s, chunk)
    if error is None and reading.finish_reason is None:
        error = "the answer ended before the server said why (no finish_reason)"
    if error is None and reading.finish_reason in BROKEN_OFF:
        error = f"the server gave the request up (finish_reason '{reading.finish_reason}')"
    streamed = len(reading.payloads) > 1
    return Stream(
        text="".join(reading.texts),
        ids=None if reading.ids is None else tuple(reading.ids),
        chunks=_counted(reading) if streamed else (),
        first_s=reading.first_s if streamed else None,
        last_s=reading.last_s if streamed else None,
        finish_reason=reading.finish_reason,
        stop_reason=reading.stop_reason,
        usage=reading.usage,
        payloads=tuple(reading.payloads),
        error=error,
    )


def reply_of(stream: Stream) -> Reply:
    """Return a stream as a reply, without what is a server's own to tell."""
    if stream.error is not None:
        return Reply(error=stream.error)
    return Reply(
        ids=stream.ids,
        text=stream.text,
        output_tokens=stream.output_tokens,
        finish_reason=finish_of(stream),
        prompt_tokens=stream.prompt_tokens,
        cached_tokens=stream.cached_tokens,
        chunks=stream.chunks,
        first_s=stream.first_s,
        last_s=stream.last_s,
    )


def _counted(reading: _Reading) -> tuple[tuple[float, int], ...]:
    """Return the chunks with their tokens; none where they do not make up the whole, or where one counts for all.

    Counts that begin after the first output do so too: a usage that rides on the last chunk counts tokens from before.
    """
    told = reading.usage.get("completion_tokens")
    found = reading.chunks
    is_whole = told is None or int(told) == sum(tokens for _, tokens in found)
    is_lumped = len(found) == 1 and sum(map(bool, reading.texts)) > 1
    is_late = bool(found) and found[0][0] != reading.first_s
    is_one_for_all = reading.ids is None and (is_lumped or is_late)
    return tuple(found) if is_whole and not is_one_for_all else ()


def objects(
    events: Sequence[Event],
) -> tuple[list[tuple[float, Mapping[str, Any]]], str | None]:
    """Return the JSON objects of a stream, each with its arrival, up to an error, and that error's sentence.

    The last event of OpenAI's streams, `[DONE]`, is none. An event that has choices beside its error is an answer.
    """
    found: list[tuple[float, Mapping[str, Any]]] = []
    for at_s, payload in events:
        if payload.strip() == b"[DONE]":
            continue
        chunk = parsed(payload)
        if isinstance(chunk, str):
            return found, chunk
        if chunk.get("error") and not chunk.get("choices"):
            return found, error_of(chunk)
        found.append((at_s, chunk))
    return found, None


def parsed(payload: bytes) -> Mapping[str, Any] | str:
    """Return the JSON object of an event, or a sentence on why it is none."""
    try:
        chunk = json.loads(payload)
    except ValueError:
        return f"the server sent what is not JSON: {payload[:200].decode(errors='replace')}"
    if not isinstance(chunk, dict):
        return (
            f"the server sent JSON that is not an object: {payload[:200].decode(errors='replace')}"
        )
    return chunk


def error_of(chunk: Mapping[str, Any]) -> str:
    """Return the sentence of an error that came inside an answer."""
    said = chunk["error"]
    message = said.get("message", said) if isinstance(said, dict) else said
    return f"the server broke off: {message}"


def finish_of(stream: Stream) -> FinishReason | None:
    """Return why the text ended. OpenAI's `stop` is EOS or a stop text; `stop_reason` says which, if the server has it.

    A text there is the stop, a token's id or null is EOS. Without the field a stop text cannot be told from EOS, and
    "eos" is returned: it is wrong only for requests that were sent with stops.
    """
    if stream.finish_reason == "length":
        return "length"
    if stream.finish_reason != "stop":
        return None
    return "stop" if isinstance(stream.stop_reason, str) else "eos"
