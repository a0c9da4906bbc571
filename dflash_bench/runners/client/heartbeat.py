"""How late the client's own event loop runs: a server cannot look faster than the client that times it.

A beat is asked for every few milliseconds; how much later than asked it comes is how late any chunk's timestamp may be.
Timers of an event loop are a millisecond coarse, so that lags of up to one say nothing.
"""

import asyncio
import time
from statistics import quantiles

from dflash_bench.records.schema import Client

BEAT_S = 0.01


class Heartbeat:
    """Beats in the running event loop between `start` and `stop`, which returns what it felt."""

    def start(self) -> None:
        """Begin to beat."""
        self._lags: list[float] = []
        self._began = time.perf_counter(), time.process_time()
        self._task = asyncio.get_running_loop().create_task(self._beat())

    def stop(self) -> Client | None:
        """End, and return the lags so far, and the CPU seconds of this process per wall second; None before a beat."""
        self._task.cancel()
        wall_s = time.perf_counter() - self._began[0]
        cpu_s = time.process_time() - self._began[1]
        lags = sorted(self._lags)
        if not lags:
            return None
        percentiles = quantiles(lags, n=100, method="inclusive") if len(lags) > 1 else lags * 99
        return Client(
            lag_p50_s=percentiles[49],
            lag_p99_s=percentiles[98],
            lag_max_s=lags[-1],
            cpu_share=cpu_s / wall_s if wall_s > 0 else 0.0,
        )

    async def _beat(self) -> None:
        while True:
            due = time.perf_counter() + BEAT_S
            await asyncio.sleep(BEAT_S)
            self._lags.append(max(0.0, time.perf_counter() - due))
