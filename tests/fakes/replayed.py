"""An SGLang server that answers with recordings of a real one."""

import json
from pathlib import Path
from typing import Any

from aiohttp import web

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings" / "sglang"


class Replayed:
    """A server that answers as SGLang did: to a prompt of so many tokens, the recording that has that prompt."""

    def __init__(self, answers: dict[int, str], metrics: tuple[str, str], window: int = 16) -> None:
        self.answers, self.metrics, self.window = answers, list(metrics), window
        self.seen: list[dict[str, Any]] = []
        self.flushes = 0

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/health", self._health)
        app.router.add_get("/server_info", self._info)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_post("/flush_cache", self._flush)
        app.router.add_post("/generate", self._generate)
        return app

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _info(self, request: web.Request) -> web.Response:
        told = json.loads(read("dflash.server_info.json"))
        return web.json_response({**told, "speculative_num_draft_tokens": self.window})

    async def _metrics(self, request: web.Request) -> web.Response:
        name = self.metrics.pop(0) if len(self.metrics) > 1 else self.metrics[0]
        return web.Response(text=read(name))

    async def _flush(self, request: web.Request) -> web.Response:
        self.flushes += 1
        return web.Response(text=read("flush_cache.txt"))

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(await request.json())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in read(self.answers[len(self.seen[-1]["input_ids"])]).split("\n\n"):
            await response.write(f"{event}\n\n".encode() if event else b"")
        return response


def read(name: str) -> str:
    return (RECORDINGS / name).read_text()
