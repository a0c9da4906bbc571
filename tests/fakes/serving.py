"""What tests of servers share: a recipe that starts the fake server, a spec, requests."""

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from dflash_bench.plan import PlannedArm
from dflash_bench.records.schema import Answer, Totals
from dflash_bench.runners.base import Load, Request
from dflash_bench.runners.recipe import load_recipe
from dflash_bench.runners.server.runner import ServerRunner
from dflash_bench.runners.server.session import ServerSession
from dflash_bench.spec import Spec
from tests.fakes import served as fake

AR = PlannedArm(name="ar", method="ar")
DFLASH = PlannedArm(name="dflash", method="dflash", block_size=4, num_draft_tokens=3)


def recipe(**changes: Any) -> dict[str, Any]:
    return {
        "name": "fake",
        "title": "a fake server",
        "kind": "server",
        "targets": "none",
        "methods": {"ar": "live", "dflash": "live"},
        "start": {
            "command": [sys.executable, str(Path(fake.__file__)), "--port", "{port}"],
            "quantization": {"int8": ["--plain"]},
            "methods": {"ar": [], "dflash": ["--num-draft-tokens", "{num_draft_tokens}"]},
        },
        "health": {"path": "/health"},
        "ask": {"dialect": "vllm"},
        "counters": {"path": "/metrics"},
        "info": {"version": "/version", "config": "/server_info"},
        "flush": {"path": "/reset_prefix_cache", "ok": '"success": *true'},
        **changes,
    }


def runner(
    folder: Path, base_url: str | None = None, silence_s: float = 60.0, **changes: Any
) -> ServerRunner:
    path = folder / "fake.yaml"
    path.write_text(yaml.safe_dump(recipe(**changes)))
    patience = {"silence_s": silence_s}
    made = ServerRunner(spec(base_url=base_url, server=patience), load_recipe(path))
    made.start()
    return made


def spec(**changes: Any) -> Spec:
    arms = {"ar": {"method": "ar"}, "dflash": {"method": "dflash", "block_size": 4}}
    content = {"name": "x", "target": "markov", "arms": arms, "workloads": ["w"]}
    return Spec.model_validate(content | {k: v for k, v in changes.items() if v is not None})


def requests(count: int = 6, stop: tuple[str, ...] = ()) -> list[Request]:
    return [
        Request(f"r{i}", (i + 1, 7, 9), key=i, max_new_tokens=24, stop=stop, text="xyz")
        for i in range(count)
    ]


def somebody_asks(url: str) -> None:
    """Send a completion that is none of ours: 12 tokens."""
    body = json.dumps({"prompt": [2], "max_tokens": 12}).encode()
    with urllib.request.urlopen(urllib.request.Request(url + "/v1/completions", body)) as answer:
        answer.read()


def asked(
    session: ServerSession, load: Load | None = None, **how: Any
) -> tuple[list[Answer], Totals]:
    answers = list(session.run(requests(**how), load or Load(2)))
    return answers, session.totals()
