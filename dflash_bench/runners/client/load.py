"""The load client: sends requests as a cell says, stamps what comes when it comes, and thinks about it afterwards.

An event loop in a thread of its own does nothing but send, receive and stamp: bodies are written before the clock
starts, bytes are kept as they are, and what they mean is worked out where the caller iterates. A request that fails,
for whatever reason, is an exchange with an `error`: one failure must not end a visit. Needs aiohttp.
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue

import aiohttp

from dflash_bench.errors import InfrastructureError
from dflash_bench.records.schema import Client
from dflash_bench.runners.base import Load
from dflash_bench.runners.client import sse
from dflash_bench.runners.client.arrivals import due_times
from dflash_bench.runners.client.exchange import Exchange, Wire
from dflash_bench.runners.client.heartbeat import Heartbeat
from dflash_bench.runners.server.endpoints import is_loopback

# Uvicorn closes a connection that idled for 5 s (vLLM's and SGLang's default too): ours must not be the last to know.
KEEP_ALIVE_S = 4.0
CONNECT_S = 30.0
# Threads hand the interpreter over this often while a load runs; Python's own 5 ms would be a lag that we made.
SWITCH_S = 0.0005
__all__ = ["Address", "Exchange", "Traffic", "Wire"]


@dataclass(frozen=True)
class Address:
    """Where a server is: `warm_path` is asked once per connection before the clock starts; any answer will do.

    A request may take as long as it will, but for `silence_s` in which not a byte of it comes.
    """

    base_url: str
    warm_path: str = "/health"
    headers: Mapping[str, str] = field(default_factory=dict)
    silence_s: float = 600.0
    keep_alive: bool = True


@dataclass(frozen=True)
class _Raw:
    """An exchange whose bytes nobody has looked at."""

    id: str
    slot_s: float
    sent_s: float
    ended_s: float
    status: int | None
    error: str | None
    is_stream: bool
    pieces: list[sse.Piece]
    is_silent: bool = False

    def read(self) -> Exchange:
        """Find the events in the bytes."""
        found = sse.events(self.pieces) if self.is_stream else sse.whole(self.pieces)
        events = tuple(found)
        error = self.error
        if error is None and self.status != 200:
            said = events[-1][1][:500].decode(errors="replace").strip() if events else "nothing"
            error = f"the server answered HTTP {self.status}: {said}"
        return Exchange(
            self.id,
            self.slot_s,
            self.sent_s,
            self.ended_s,
            self.status,
            error,
            events,
            self.is_silent,
        )


class Traffic:
    """The requests of one visit on their way; iterate to send them, once.

    Leaving the iteration early (an exception, Ctrl-C) cancels what is in flight. `full_s` is when the request was sent
    that filled the last slot of a closed loop, known before the first exchange is handed out; in an open loop, which
    has no such moment, it means nothing. `client` tells afterwards how late the client itself was.
    """

    def __init__(self, address: Address, wires: Sequence[Wire], load: Load) -> None:
        self.full_s = 0.0
        self.client: Client | None = None
        self._address = address
        self._load = load
        self._bodies = [(wire, json.dumps(wire.body).encode()) for wire in wires]
        self._slots = min(load.batch_size, len(wires))
        self._num_sent = 0
        self._ended: SimpleQueue[_Raw | BaseException | None] = SimpleQueue()
        self._is_full = threading.Event()
        self._stop = _Stop()

    def __iter__(self) -> Iterator[Exchange]:
        """Send everything; yield each exchange as it ends, in the order of their ends.

        Raises InfrastructureError if it was cancelled before all had ended.
        """
        if not self._bodies:
            return
        ready = threading.Event()
        thread = threading.Thread(target=self._work, args=(ready,), name="load", daemon=True)
        num_ended = 0
        switch_s = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        thread.start()
        try:
            while (ended := self._ended.get()) is not None:
                if isinstance(ended, BaseException):
                    raise ended
                self._is_full.wait()
                num_ended += 1
                yield ended.read()
            if num_ended < len(self._bodies):
                raise InfrastructureError(
                    f"the load was stopped when {num_ended} of {len(self._bodies)} requests had ended."
                )
        finally:
            ready.wait()
            self.cancel()
            thread.join()
            sys.setswitchinterval(switch_s)

    def cancel(self) -> None:
        """Give up what is in flight, from any thread; does nothing before the first request, or after the last."""
        self._stop()

    def _work(self, ready: threading.Event) -> None:
        """Run the event loop; a fault of ours goes to the caller."""
        try:
            asyncio.run(self._send_all(ready))
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self._ended.put(error)
        finally:
            ready.set()
            self._is_full.set()
            self._ended.put(None)

    async def _send_all(self, ready: threading.Event) -> None:
        self._stop.takes_over()
        ready.set()
        address = self._address
        async with aiohttp.ClientSession(
            connector=_connector(address),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_S, sock_read=address.silence_s
            ),
            headers={"Content-Type": "application/json", **address.headers},
            skip_auto_headers=["Accept-Encoding"],
            # A proxy has no business between a client and a server on one machine.
            trust_env=not is_loopback(address.base_url),
        ) as session:
            await self._connect(session)
            heartbeat = Heartbeat()
            heartbeat.start()
            await (
                self._closed(session) if self._load.request_rate is None else self._open(session)
            )
            self.client = heartbeat.stop()

    async def _connect(self, session: aiohttp.ClientSession) -> None:
        """Open a connection per slot; a server that cannot be reached will say so in each request."""
        url = self._address.base_url.rstrip("/") + self._address.warm_path
        patience = aiohttp.ClientTimeout(total=CONNECT_S)

        async def open_one() -> None:
            with suppress(aiohttp.ClientError, OSError):
                async with session.get(url, timeout=patience) as response:
                    await response.read()

        # All ask at once, before any connection is free to be used again: so many are opened.
        await asyncio.gather(*(open_one() for _ in range(self._slots)))

    async def _closed(self, session: aiohttp.ClientSession) -> None:
        """Keep every slot busy: the end of a request sends the next."""
        start_s = time.perf_counter()
        waiting = iter(self._bodies)

        async def serve_slot() -> None:
            free_s = start_s
            for wire, body in waiting:
                free_s = await self._ask(session, wire, body, free_s)

        await asyncio.gather(*(serve_slot() for _ in range(self._slots)))

    async def _open(self, session: aiohttp.ClientSession) -> None:
        """Send each request when it is due, or as soon after as one of the slots is free."""
        load = self._load
        rate = load.request_rate
        assert rate is not None, "the closed loop has no rate"
        start_s = time.perf_counter()
        self._is_full.set()  # nobody waits for the slots to fill: answers are handed out as they end
        slots = asyncio.Semaphore(self._load.batch_size)

        async def send(wire: Wire, body: bytes, due_s: float) -> None:
            async with slots:
                await self._ask(session, wire, body, due_s)

        async with asyncio.TaskGroup() as group:
            due_times_s = due_times(len(self._bodies), rate, load.burstiness, load.seed)
            for (wire, body), after_s in zip(self._bodies, due_times_s, strict=True):
                await asyncio.sleep(start_s + after_s - time.perf_counter())
                group.create_task(send(wire, body, start_s + after_s))

    async def _ask(
        self, session: aiohttp.ClientSession, wire: Wire, body: bytes, slot_s: float
    ) -> float:
        """Send one request, stamp all bytes that come, hand both over; return when it ended."""
        url = self._address.base_url.rstrip("/") + wire.path
        pieces: list[sse.Piece] = []
        status, is_stream, is_silent, error = None, False, False, None
        sent_s = time.perf_counter()
        self._count_sent(sent_s)
        try:
            async with session.post(url, data=body) as response:
                status = response.status
                is_stream = response.content_type == "text/event-stream"
                while piece := await response.content.readany():
                    pieces.append((time.perf_counter(), piece))
        except aiohttp.SocketTimeoutError:
            is_silent = True
            error = f"nothing came for {self._address.silence_s:g} s, after {_size(pieces)}"
        except (aiohttp.ClientError, OSError) as fault:
            error = f"the connection failed after {_size(pieces)}: {_sentence(fault)}"
        ended_s = time.perf_counter()
        self._ended.put(
            _Raw(wire.id, slot_s, sent_s, ended_s, status, error, is_stream, pieces, is_silent)
        )
        return ended_s

    def _count_sent(self, sent_s: float) -> None:
        self._num_sent += 1
        if self._num_sent == self._slots:
            self.full_s = sent_s
            self._is_full.set()


def _connector(address: Address) -> aiohttp.TCPConnector:
    """Connections without a limit, kept from request to request unless the server closes them without a word."""
    if not address.keep_alive:
        return aiohttp.TCPConnector(limit=0, force_close=True)
    return aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S)


class _Stop:
    """Cancels the task that took over, from another thread; does nothing once that is done."""

    def takes_over(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()

    def __call__(self) -> None:
        task = getattr(self, "_task", None)
        if task is not None:
            with suppress(RuntimeError):  # the loop is closed: nothing is in flight
                self._loop.call_soon_threadsafe(task.cancel)


def _size(pieces: Sequence[sse.Piece]) -> str:
    return f"{sum(len(piece) for _, piece in pieces)} bytes"


def _sentence(fault: Exception) -> str:
    return str(fault) or type(fault).__name__
