"""A server that is ready to be asked: a load goes out, and answers, counters and complaints come back."""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dflash_bench.plan import PlannedArm
from dflash_bench.records.schema import Answer, Totals
from dflash_bench.runners.base import Load, Request
from dflash_bench.runners.client.exchange import Exchange, Wire
from dflash_bench.runners.client.load import Address, Traffic
from dflash_bench.runners.dialects import DIALECTS
from dflash_bench.runners.ending import ended
from dflash_bench.runners.machine import Gpu
from dflash_bench.runners.server.complaints import disagreements, foreign, mislabelled
from dflash_bench.runners.server.endpoints import Endpoints
from dflash_bench.runners.server.process import ServerProcess, memory_returned
from dflash_bench.runners.server.shares import Shares
from dflash_bench.runners.stop import stop_finder

if TYPE_CHECKING:
    from dflash_bench.runners.acceptance.prometheus import Counters
    from dflash_bench.runners.server.runner import ServerRunner

# Servers count a step after they have sent what it gave.
SETTLE_S = 0.25


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
        flushed = self._endpoints.flush()
        before = self._counters()
        answers: list[Answer] = []
        traffic = Traffic(self._address, [self._wire(r, load.temperature) for r in requests], load)
        self._traffic = traffic
        shares: Shares | None = None
        by_id = {request.id: request for request in requests}
        with closing(_generator(traffic)) as exchanges:
            for exchange in exchanges:
                self._check_alive(exchange)
                shares = shares or Shares(
                    traffic.full_s, len(requests), load, drafts=self._arm.method != "ar"
                )
                answers.append(self._answer(by_id[exchange.id], exchange, shares))
                yield answers[-1]
        totals = shares.totals() if shares else Totals(wall_s=0.0)
        self._totals = self._with_counters(totals, before, answers, flushed, traffic)

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

    def _answer(self, request: Request, exchange: Exchange, shares: Shares) -> Answer:
        tokenizer = self.runner.tokenizer
        reply = self._dialect.reply(exchange.events)
        reply = ended(reply, stop_finder(tokenizer, request.stop))
        ids = reply.ids
        text = reply.text if ids is None else tokenizer.decode(ids)
        if ids is not None and reply.output_tokens is None:
            reply = replace(reply, output_tokens=len(ids))
        return shares.take(request, exchange, reply, text)

    def _check_alive(self, exchange: Exchange) -> None:
        """Raise with the log's end if a failed exchange was the server's own end."""
        if exchange.error is None or self._process is None:
            return
        if self._process.exit_code() is None and exchange.status is None:
            time.sleep(SETTLE_S)  # a connection breaks before its process is gone
        if self._process.exit_code() is not None:
            raise self._process.died(f"during a visit of arm {self._arm.name}")

    def _counters(self) -> "Counters | None":
        text = self._endpoints.counters()
        return None if text is None else self._dialect.counters(text)

    def _with_counters(
        self,
        totals: Totals,
        before: "Counters | None",
        answers: Sequence[Answer],
        flushed: str | None,
        traffic: Traffic,
    ) -> Totals:
        """Add what the server's counters gained, what it is, and what is doubtful about either."""
        complaints = [flushed] if flushed else []
        acceptance, gained = None, dict[str, Any]()
        if before is not None:
            time.sleep(SETTLE_S)
            after = self._counters()
            if after is not None:
                acceptance, gained, doubts = self._dialect.between(before, after)
                complaints += doubts or [
                    *foreign(gained.get("ended_requests"), answers),
                    *disagreements(acceptance, answers, self._arm.block_size),
                ]
        backend = {**self._about, **gained}
        complaints += mislabelled(
            self._arm, backend.get("num_speculative_tokens"), acceptance, answers
        )
        if complaints:
            backend["complaints"] = complaints
        return totals.model_copy(
            update={
                "acceptance": acceptance,
                "block_size": self._arm.block_size,
                "client": traffic.client,
                "backend": backend,
            }
        )


def _generator(traffic: Traffic) -> Generator[Exchange, None, None]:
    """Return the iteration as one that can be closed, which cancels what is in flight."""
    yield from traffic
