"""What is asked of a server beside completions: its version, its settings, its counters, and to empty its caches.

Asked between loads, never during one, so the standard library's client will do.
"""

import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from dflash_bench.errors import InfrastructureError
from dflash_bench.records.secrets import without_secrets
from dflash_bench.runners.recipe import Recipe

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class NotServed(InfrastructureError):
    """A server is there, and answers this path with an error."""


@dataclass(frozen=True)
class Endpoints:
    """The paths of `recipe` on the server at `base_url`."""

    base_url: str
    recipe: Recipe
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 30.0

    def version(self) -> str | None:
        """Return the version that the server tells, None where the recipe knows no path for it."""
        path = self.recipe.info.version
        if path is None:
            return None
        told = _parsed(self.read(path))
        if not isinstance(told, dict):
            return str(told).strip()
        found = next((told[name] for name in ("version", "build_info") if name in told), None)
        return None if found is None else str(found)

    def config(self) -> Any:
        """Return what the server says of its settings, without secrets; None where it has no path for it."""
        path = self.recipe.info.config
        return None if path is None else without_secrets(_parsed(self.read(path)))

    def counters(self) -> str | None:
        """Return the text that holds the counters; None where the recipe names none."""
        return None if self.recipe.counters is None else self.read(self.recipe.counters.path)

    def models(self) -> list[str]:
        """Return the names under which an OpenAI server offers its models; none if it lists none."""
        try:
            told = _parsed(self.read("/v1/models"))
        except NotServed:
            return []
        found = told.get("data") if isinstance(told, dict) else None
        entries = found if isinstance(found, list) else []
        return [str(entry["id"]) for entry in entries if isinstance(entry, dict) and "id" in entry]

    def flush(self) -> str | None:
        """Empty the prefix caches; return a sentence if that failed, None if it is done or nothing is to do."""
        flush = self.recipe.flush
        if flush is None:
            return None
        try:
            said = self.read(flush.path, flush.method)
        except InfrastructureError as error:
            return f"the prefix cache was not emptied: {error.message}"
        if flush.ok is not None and not re.search(flush.ok, said):
            return f"the prefix cache was not emptied: {flush.path} answered {said[:200]!r}"
        return None

    def read(self, path: str, method: str = "GET") -> str:
        """Return the body of `path`; raises InfrastructureError where there is none."""
        url = self.base_url + path
        request = urllib.request.Request(url, method=method, headers=dict(self.headers))
        handlers = [urllib.request.ProxyHandler({})] if is_loopback(self.base_url) else []
        try:
            opener = urllib.request.build_opener(*handlers)
            with opener.open(request, timeout=self.timeout_s) as answer:
                text: str = answer.read().decode("utf-8", errors="replace")
                return text
        except urllib.error.HTTPError as error:
            with error:
                said = error.read(300).decode("utf-8", errors="replace").strip()
            raise NotServed(
                f"{url}: the server answered HTTP {error.code}: {said or error.reason}",
                remedy=f"Mend that path in the recipe {self.recipe.reference}, or leave it out.",
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise InfrastructureError(
                f"{url}: no server answers: {getattr(error, 'reason', error)}.",
                remedy="Start it, or correct base_url.",
            ) from None


def normal_url(base_url: str) -> str:
    """Return the root of a server: OpenAI's own clients are given `.../v1`, which our paths have already."""
    return base_url.rstrip("/").removesuffix("/v1")


def same_server(one: str, other: str) -> bool:
    """Tell whether two addresses are one server's, however they name this machine or end."""
    return _place(one) == _place(other)


def is_loopback(base_url: str) -> bool:
    """Tell whether the server is on this machine, where a proxy has no business."""
    return urlsplit(base_url).hostname in LOOPBACK


def _place(base_url: str) -> tuple[str | None, int | None, str]:
    parts = urlsplit(normal_url(base_url))
    host = LOOPBACK[0] if parts.hostname in LOOPBACK else parts.hostname
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return host, port, parts.path


def _parsed(text: str) -> Any:
    """Return JSON as values, anything else as the text that it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text
