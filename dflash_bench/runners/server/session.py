"""A server that is ready to be asked: a load goes out, and answers, counters and complaints come back."""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dflash_bench.errors import InfrastructureError
from dflash_bench.plan import PlannedArm
from dflash_bench.records.schema import Answer, Totals
from dflash_bench.runners.acceptance.prometheus import Counters
from dflash_bench.runners.base import Load, Request
from dflash_bench.runners.client.exchange import Exchange, Wire
from dflash_bench.runners.client.load import Address, Traffic
from dflash_bench.runners.dialects import DIALECTS, Reply
from dflash_bench.runners.dialects.base import Gained, gained_between
from dflash_bench.runners.dialects.reading import UNREADABLE, read_reply
from dflash_bench.runners.ending import ended
from dflash_bench.runners.machine import Gpu
from dflash_bench.runners.server.complaints import disagreements, foreign, incoherent, mislabelled
from dflash_bench.runners.server.endpoints import Endpoints, NotServed
from dflash_bench.runners.server.process import ServerProcess, memory_returned
from dflash_bench.runners.server.shares import Shares
from dflash_bench.runners.stop import stop_finder

if TYPE_CHECKING:
    from dflash_bench.runners.server.runner import ServerRunner

# Servers count a step after they have sent what it gave.
SETTLE_S = 0.25
# The end of a server breaks its connections first; its guardian then takes its children down before it tells.
DYING_S = 3.0
SILENT_REQUESTS = 3


class ServerSession:
    """One arm's server. `process` is None where it was running before us and will run after us."""

    def __init__(
        self,
        runner: "ServerRunner",
        arm: PlannedArm,
        endpoints: Endpoints,
        model: str,
        about: dict[str, Any],
        process: ServerProcess | None = None,
        gpus_before: Sequence[Gpu] = (),
    ) -> None:
        ask = runner.recipe.ask
        assert ask is not None, "a server's recipe has it"
        self._ask = ask
        self.runner, self._arm = runner, arm
        self._endpoints, self._model = endpoints, model
        self._about, self._process, self._gpus_before = about, process, gpus_before
        self._dialect = DIALECTS[ask.dialect]()
        health = runner.recipe.health
        self._address = Address(
            endpoints.base_url,
            warm_path=health.path if health else "/v1/models",
            headers=endpoints.headers,
            silence_s=runner.spec.server.silence_s,
            keep_alive=ask.keep_alive,
        )
        self._traffic: Traffic | None = None
        self._totals: Totals | None = None

    @property
    def pid(self) -> int | None:
        """The server's process, None where it is not ours."""
        return None if self._process is None else self._process.pid

    def run(self, requests: Sequence[Request], load: Load) -> Iterator[Answer]:
        """Send all requests as `load` says; yield each answer as its request ends.

        Raises InfrastructureError, with the end of the log, if the server ended.
        """
        self._totals = None
        complaints = self._flush()
        before, doubts = self._counters("before")
        complaints += doubts
        answers: list[Answer] = []
        queued: list[float | None] = []
        num_silent = 0
        traffic = Traffic(self._address, [self._wire(r, load.temperature) for r in requests], load)
        self._traffic = traffic
        shares: Shares | None = None
        by_id = {request.id: request for request in requests}
        with closing(_generator(traffic)) as exchanges:
            for exchange in exchanges:
                if exchange.error is not None:
                    is_refused = exchange.status is None and not exchange.is_silent
                    self._check_process("during", DYING_S if is_refused else 0.0)
                num_silent = num_silent + 1 if exchange.is_silent else 0
                if num_silent == SILENT_REQUESTS:
                    raise self._hangs()
                shares = shares or Shares(
                    traffic.full_s, len(requests), load, drafts=self._arm.method != "ar"
                )
                request = by_id[exchange.id]
                reply = self._reply(request, exchange)
                answers.append(shares.take(request, exchange, reply, self._text(reply)))
                if answers[-1].error is None:
                    queued.append(reply.queue_s)
                yield answers[-1]
        totals = shares.totals() if shares else Totals(wall_s=0.0)
        totals = totals.model_copy(update={"client": traffic.client})
        self._totals = self._with_counters(totals, before, answers, queued, complaints)

    def totals(self) -> Totals:
        """Return the totals of the last finished `run`."""
        if self._totals is None:
            raise RuntimeError("totals() before a run was finished")
        return self._totals

    def close(self) -> None:
        """Stop asking, take the server down if it is ours, and wait until its memory is back."""
        if self._traffic is not None:
            self._traffic.cancel()
        if self._process is not None:
            self._process.stop()
            memory_returned(self._gpus_before)

    def _wire(self, request: Request, temperature: float) -> Wire:
        """Write one request down; the recipe's `ask` has the last word."""
        sampling = self.runner.spec.sampling
        wire = self._dialect.wire(request, sampling, temperature, self._model)
        said = {**wire.body, **self._ask.body}
        # Null in a recipe takes a key out: a strict server refuses what it does not know.
        dropped = {key for key, value in self._ask.body.items() if value is None}
        body = {key: value for key, value in said.items() if key not in dropped}
        if not self._ask.stream:
            body = {**body, "stream": False}
            body.pop("stream_options", None)
        return Wire(wire.id, self._ask.path or wire.path, body)

    def _reply(self, request: Request, exchange: Exchange) -> Reply:
        """Read an answer, cut where its text ends in every arm."""
        reply = read_reply(self._dialect, exchange.events)
        reply = ended(reply, stop_finder(self.runner.tokenizer, request.stop))
        if reply.ids is not None and reply.output_tokens is None:
            reply = replace(reply, output_tokens=len(reply.ids))
        return reply

    def _text(self, reply: Reply) -> str | None:
        return reply.text if reply.ids is None else self.runner.tokenizer.decode(reply.ids)

    def _flush(self) -> list[str]:
        """Empty the prefix caches of a server of ours; one that runs already is left as it is."""
        if self._process is None:
            return []
        self._check_process("before")
        said = self._endpoints.flush()
        if said is None:
            return []
        self._check_process("before", SETTLE_S)
        return [said]

    def _check_process(self, when: str, patience_s: float = 0.0) -> None:
        """Raise with the log's end if our server has ended, or does so within `patience_s`."""
        if self._process is None:
            return
        deadline = time.monotonic() + patience_s
        while self._process.exit_code() is None:
            if time.monotonic() >= deadline:
                return
            time.sleep(0.02)
        raise self._process.died(f"{when} a visit of arm {self._arm.name}")

    def _hangs(self) -> InfrastructureError:
        log = "" if self._process is None else f"; its log ends:\n{self._process.log_tail()}"
        return InfrastructureError(
            f"{SILENT_REQUESTS} requests in a row to the server of arm {self._arm.name} ended because nothing came for"
            f" {self._address.silence_s:g} s{log}",
            remedy="See why it hangs; raise server.silence_s if it takes as long until a first token.",
        )

    def _counters(self, when: str) -> tuple[Counters | None, list[str]]:
        """Return a snapshot, and sentences on why there is none where the recipe names counters.

        A server that runs already may have been started without them; of ours that is a fault of the recipe.
        """
        try:
            text = self._endpoints.counters()
        except NotServed as error:
            if self._process is not None:
                raise
            return None, [f"the server's counters cannot be read: {error.message}"]
        except InfrastructureError:
            self._check_process(when, DYING_S)
            raise
        try:
            return None if text is None else self._dialect.counters(text), []
        except UNREADABLE as fault:
            return None, [_unreadable(fault)]

    def _with_counters(
        self,
        totals: Totals,
        before: Counters | None,
        answers: Sequence[Answer],
        queued: Sequence[float | None],
        complaints: list[str],
    ) -> Totals:
        """Add what the server's counters gained, what it is, and what is doubtful or wrong about either."""
        arm, invalid = self._arm, list[str]()
        after: Counters | None = None
        if before is not None:
            time.sleep(SETTLE_S)
            after, doubts = self._counters("after")
            complaints = [*complaints, *doubts]
        gained = Gained()
        if before is not None and after is not None:
            try:
                gained, invalid = gained_between(self._dialect, before, after)
            except UNREADABLE as fault:
                gained = Gained(doubts=[_unreadable(fault)])
        acceptance, counted = gained.acceptance, gained.backend
        is_whole = not invalid and not gained.doubts
        backend = {**self._about, **counted}
        waits = [wait for wait in queued if wait is not None]
        if waits and len(waits) == len(queued):
            backend.setdefault("queue_s", round(sum(waits), 9))
        block_size = _block_size(arm, backend.get("num_speculative_tokens"))
        complaints = [
            *self._about.get("complaints", ()),
            *complaints,
            *gained.doubts,
            *(foreign(counted.get("ended_requests"), answers) if is_whole else ()),
            *(disagreements(acceptance, answers, block_size) if is_whole else ()),
            *incoherent(acceptance, answers),
        ]
        tells = self._dialect.tells_drafts
        would_tell = tells == "answers" or (tells == "counters" and bool(counted))
        invalid += mislabelled(arm, backend, acceptance, answers, would_tell)
        said = {"complaints": complaints, "invalid": invalid}
        backend |= {key: sentences for key, sentences in said.items() if sentences}
        return totals.model_copy(
            update={"acceptance": acceptance, "block_size": block_size, "backend": backend}
        )


def _unreadable(fault: Exception) -> str:
    return f"the server's counters cannot be read: {type(fault).__name__}: {fault}"


def _block_size(arm: PlannedArm, drafts_told: int | None) -> int | None:
    """Return the nodes of a block, the anchor counted: as the arm asks, else as the server says."""
    if arm.block_size is not None or arm.method == "ar" or drafts_told is None:
        return arm.block_size
    return drafts_told + 1


def _generator(traffic: Traffic) -> Generator[Exchange, None, None]:
    """Return the iteration as one that can be closed, which cancels what is in flight."""
    yield from traffic
