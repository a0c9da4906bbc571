"""A worker's backend that loads nothing: it says what it is told to, or misbehaves as its options say."""

import os
import subprocess
import sys
import time
from typing import Any


class Refused(Exception):
    """As in the real ones."""


def versions() -> dict[str, str | None]:
    """Print where a library would, and must not be heard."""
    print("a library's banner on stdout")
    return {"fake": "1.0", "absent": None}


def load(settings: dict[str, Any]) -> "Arm":
    """Return an arm that drafts as many as `block_size` says."""
    if "refuse" in settings["options"]:
        raise Refused("this cannot be done here")
    return Arm(settings)


class Arm:
    """Answers with the prompt, backwards: the prefill's token first, then steps of three tokens."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings, self._misbehave = settings, settings["options"].get("misbehave")
        drafting = settings["method"] != "ar"
        self.facts = {
            "block_size": settings["block_size"] if drafting else None,
            "first_pass": "prefill",
            "config": {"threads": os.environ.get("OMP_NUM_THREADS")},
        }

    def generate(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer, fail, die or hang."""
        print("and another")
        if self._misbehave == "raise":
            raise ValueError("no such token")
        if self._misbehave == "die":
            os._exit(3)
        if self._misbehave == "hang":
            time.sleep(600)
        if self._misbehave == "fork":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            return {"child": child.pid}
        tokens = request["prompt"][::-1][: request["max_new_tokens"]]
        if self._misbehave == "mute":
            tokens = []
        passes, done = [[0, 0, 1]] if tokens else [], 1
        while done < len(tokens):
            count = min(3, len(tokens) - done)
            passes.append([4, 2, count])
            done += count
        return {
            "tokens": tokens,
            "at_s": [0.5 + 0.1 * number for number in range(len(passes))],
            "sizes": [count for _, _, count in passes],
            "passes": passes,
            "cpu_s": 0.25,
            "peak_memory_bytes": 1000 + len(tokens),
        }
