"""A server that speculates a little, over real HTTP: no model, exact tokens, exact counters, and faults on demand.

It speaks as vLLM's OpenAI server does (`token_ids`, cumulative usage, per-request and Prometheus counters) or as a
plain one (`plain=True`: text and usage only). The answer to a prompt is a function of it alone; a drafting server
commits `accepted + 1` tokens a step, `accepted` cycling over 0..K, one event per step. `python served.py
--port N` serves until it is killed.
"""

import argparse
import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

EOS = 0
POSITIONS = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
WRONG: dict[str | None, dict[str, Any]] = {
    "garbage": {"choices": [None]},
    "event": {"error": {"message": "the engine is dead", "code": 500}},
}


@dataclass
class Served:
    """What the server is, and what it has counted.

    faults     of the n-th completion: `500`, `cut` (the connection ends), `hang`, `event` (an error inside the stream),
               `garbage` (JSON of a shape that nobody reads)
    bos        tokens that it puts before each prompt on its own account
    model      the name that it lists
    queue_ms   how long it says each request waited; `inflated`: accepted drafts that it tells and did not accept
    counting   whether it serves its counters; `reset_at`: after so many completions they start anew
    """

    num_draft_tokens: int = 0
    step_s: float = 0.0
    plain: bool = False
    bos: int = 0
    faults: dict[int, str] = field(default_factory=dict)
    per_request: bool = True
    flushes: bool = True
    model: str = "markov"
    counting: bool = True
    reset_at: int | None = None
    queue_ms: float | None = None
    inflated: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    seen: list[dict[str, Any]] = field(default_factory=list)
    most_in_flight: int = 0
    in_flight: int = 0
    connections: set[int] = field(default_factory=set)
    keys: set[str | None] = field(default_factory=set)

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/health", self._health)
        app.router.add_get("/version", self._version)
        app.router.add_get("/server_info", self._info)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/reset_prefix_cache", self._flush)
        app.router.add_post("/v1/completions", self._complete)
        return app

    async def _health(self, request: web.Request) -> web.Response:
        self.connections.add(id(request.transport))
        await asyncio.sleep(0)
        return web.Response()

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": "0.0.1"})

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response(
            {"object": "list", "data": [{"id": self.model, "object": "model"}]}
        )

    async def _info(self, request: web.Request) -> web.Response:
        k = self.num_draft_tokens
        speculative = {"method": "dflash", "num_speculative_tokens": k} if k else None
        return web.json_response({"vllm_config": {"speculative_config": speculative}})

    async def _flush(self, request: web.Request) -> web.Response:
        self.counts["flushes"] += 1
        return web.json_response({"success": self.flushes})

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(text=self.metrics()) if self.counting else web.Response(status=404)

    def metrics(self) -> str:
        """Return the counters as Prometheus text, `_created` series and all."""
        lines = []
        names = ["vllm:prompt_tokens", "vllm:generation_tokens"]
        if self.num_draft_tokens:
            counted = ("drafts", "draft_tokens", "accepted_tokens")
            names += [f"vllm:spec_decode_num_{name}" for name in counted]
        for name in names:
            lines += [
                f"# HELP {name}_total Count.",
                f"# TYPE {name}_total counter",
                f'{name}_total{{engine="0",model_name="m"}} {float(self.counts[name])}',
                f"# TYPE {name}_created gauge",
                f'{name}_created{{engine="0",model_name="m"}} 1.76e+09',
            ]
        if self.num_draft_tokens:
            lines += [f"# HELP {POSITIONS} Count.", f"# TYPE {POSITIONS} counter"]
            for position in range(self.num_draft_tokens):
                count = float(self.counts[f"position {position}"])
                labels = f'engine="0",model_name="m",position="{position}"'
                lines.append(f"{POSITIONS}{{{labels}}} {count}")
        ended, labels = "vllm:request_generation_tokens", 'engine="0",model_name="m"'
        lines += [
            f"# TYPE {ended} histogram",
            f'{ended}_bucket{{{labels},le="+Inf"}} {float(self.counts["requests"])}',
            f"{ended}_count{{{labels}}} {float(self.counts['requests'])}",
            f"{ended}_sum{{{labels}}} {float(self.counts['vllm:generation_tokens'])}",
        ]
        return "\n".join(lines) + "\n"

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        self.connections.add(id(request.transport))
        self.keys.add(request.headers.get("Authorization"))
        body = await request.json()
        number = len(self.seen)
        self.seen.append(body)
        if number == self.reset_at:
            self.counts.clear()
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._answer(request, body, self.faults.get(number))
        finally:
            self.in_flight -= 1

    async def _answer(
        self, request: web.Request, body: dict[str, Any], fault: str | None
    ) -> web.StreamResponse:
        if fault == "500":
            return web.json_response({"error": {"message": "out of luck"}}, status=500)
        if fault == "hang":
            await asyncio.sleep(3600)
        prompt = body["prompt"]
        ids = list(prompt.encode()) if isinstance(prompt, str) else list(prompt)
        ids = [1] * self.bos + ids
        output, finish = answer_to(ids, body["max_tokens"])
        steps = steps_of(len(output), self.num_draft_tokens)
        self._count(ids, output, steps)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        done = 0
        for number, committed in enumerate([1, *(step + 1 for step in steps)]):
            await asyncio.sleep(self.step_s)
            chunk = output[done : done + committed]
            done += len(chunk)
            if fault == "cut" and number == 1:
                assert request.transport is not None
                request.transport.abort()
                return response
            if fault in WRONG and number == 1:
                await _send(response, WRONG[fault])
                break
            event = self._event(ids, chunk, done, finish if done == len(output) else None, number)
            await _send(response, event)
        else:
            await _send(response, self._last(ids, output, steps))
        with suppress(ConnectionError):
            await response.write(b"data: [DONE]\n\n")
            await response.write_eof()
        return response

    def _event(
        self, ids: list[int], chunk: list[int], done: int, finish: str | None, number: int
    ) -> dict[str, Any]:
        choice: dict[str, Any] = {
            "index": 0,
            "text": bytes(token for token in chunk if token != EOS).decode(),
            "finish_reason": finish,
        }
        event: dict[str, Any] = {"object": "text_completion", "choices": [choice]}
        if not self.plain:
            choice |= {"stop_reason": None, "token_ids": chunk}
            choice |= {"prompt_token_ids": ids} if number == 0 else {}
            event["usage"] = usage(ids, done)
        return event

    def _last(self, ids: list[int], output: list[int], steps: list[int]) -> dict[str, Any]:
        event: dict[str, Any] = {"choices": [], "usage": usage(ids, len(output))}
        if self.num_draft_tokens and self.per_request and not self.plain:
            event["metrics"] = {"speculative_decoding": self._speculative(steps)}
            if self.queue_ms is not None:
                event["metrics"]["queue_time_ms"] = self.queue_ms
        return event

    def _speculative(self, steps: list[int]) -> dict[str, Any]:
        k = self.num_draft_tokens
        accepted, drafted = sum(steps), k * len(steps)
        return {
            "mean_acceptance_length": 1 + accepted / len(steps) if steps else 1.0,
            "draft_acceptance_rate": accepted / drafted if drafted else 0.0,
            "acceptance_histogram": [steps.count(n) for n in range(k + 1)],
            "num_spec_steps": len(steps),
            "num_accepted_draft_tokens": accepted + self.inflated,
            "num_draft_tokens": drafted,
            "num_spec_tokens": k,
            "per_step_accepted": [] if self.inflated else steps,
            "per_step_drafted": [k] * len(steps),
        }

    def _count(self, ids: list[int], output: list[int], steps: list[int]) -> None:
        k = self.num_draft_tokens
        self.counts["requests"] += 1
        self.counts["vllm:prompt_tokens"] += len(ids)
        self.counts["vllm:generation_tokens"] += len(output)
        if k:
            self.counts["vllm:spec_decode_num_drafts"] += len(steps)
            self.counts["vllm:spec_decode_num_draft_tokens"] += k * len(steps)
            self.counts["vllm:spec_decode_num_accepted_tokens"] += sum(steps)
            for step in steps:
                for position in range(step):
                    self.counts[f"position {position}"] += 1


def answer_to(prompt: Sequence[int], max_tokens: int) -> tuple[list[int], str]:
    """Return the output ids of a prompt, and vLLM's word for why they end: small letters, then an EOS."""
    length = 10 + sum(prompt) % 20
    output = [97 + (sum(prompt) + 7 * index) % 26 for index in range(length)]
    output[-1] = EOS
    if length <= max_tokens:
        return output, "stop"
    return output[:max_tokens], "length"


def steps_of(num_tokens: int, num_draft_tokens: int) -> list[int]:
    """Return the accepted drafts of each step, uncut: the last may run past the end, as vLLM counts it."""
    left, steps = num_tokens - 1, list[int]()
    while left > 0:
        steps.append(len(steps) % (num_draft_tokens + 1))
        left -= steps[-1] + 1
    return steps


def usage(prompt: Sequence[int], done: int) -> dict[str, int]:
    return {
        "prompt_tokens": len(prompt),
        "completion_tokens": done,
        "total_tokens": len(prompt) + done,
    }


async def _send(response: web.StreamResponse, event: dict[str, Any]) -> None:
    with suppress(ConnectionError):
        await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")


@contextmanager
def serving(served: Served) -> Iterator[str]:
    """Serve from a thread while inside; give the URL."""
    ready, place = threading.Event(), dict[str, Any]()

    async def serve() -> None:
        place["loop"], place["end"] = asyncio.get_running_loop(), asyncio.Event()
        runner = web.AppRunner(served.app(), shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        place["port"] = runner.addresses[0][1]
        ready.set()
        await place["end"].wait()
        await asyncio.sleep(0.02)  # a connection that came last is accepted first, or never closed
        await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield f"http://127.0.0.1:{place['port']}"
    finally:
        place["loop"].call_soon_threadsafe(place["end"].set)
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--num-draft-tokens", type=int, default=0)
    parser.add_argument("--step-s", type=float, default=0.0)
    parser.add_argument("--plain", action="store_true")
    asked = parser.parse_args()
    served = Served(asked.num_draft_tokens, asked.step_s, asked.plain)
    print(f"serving on port {asked.port}", flush=True)
    web.run_app(served.app(), host="127.0.0.1", port=asked.port, print=None)


if __name__ == "__main__":
    main()
