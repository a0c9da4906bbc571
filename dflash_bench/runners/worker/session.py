"""A worker that has loaded its arm: requests go in one by one, records come out."""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dflash_bench.records.schema import Answer, Totals
from dflash_bench.runners.base import Load, Request
from dflash_bench.runners.dialects.base import seed_of
from dflash_bench.runners.server.process import memory_returned
from dflash_bench.runners.stop import stop_finder
from dflash_bench.runners.worker.report import Origin, answer_of, totals_of
from dflash_bench.runners.worker.worker import Failed, Worker
from dflash_bench.spec import SamplingSpec

if TYPE_CHECKING:
    from dflash_bench.runners.machine import Gpu
    from dflash_bench.runners.tokenizer import TargetTokenizer


class WorkerSession:
    """One arm in its worker. `gpus_before` is how the machine's GPUs were found, and shall be left."""

    def __init__(
        self,
        worker: Worker,
        origin: Origin,
        about: dict[str, Any],
        tokenizer: "TargetTokenizer",
        sampling: SamplingSpec,
        gpus_before: "Sequence[Gpu]",
    ) -> None:
        self._worker, self._origin, self._about = worker, origin, about
        self._tokenizer, self._sampling, self._gpus_before = tokenizer, sampling, gpus_before
        self._totals: Totals | None = None

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._worker.pid

    def run(self, requests: Sequence[Request], load: Load) -> Iterator[Answer]:
        """Generate for one request after the other; yield each answer as it ends.

        Raises InfrastructureError if the worker ended; what its backend failed at is an answer with an error.
        """
        self._totals = None
        answers: list[Answer] = []
        peaks: list[int | None] = []
        wall_s = 0.0
        for request in requests:
            began = time.perf_counter()
            try:
                report = self._worker.ask("run", self._message(request, load.temperature))
            except Failed as error:
                answer, peak = Answer(request=request.id, error=error.message), None
            else:
                answer, peak = self._answer(request, report), report["peak_memory_bytes"]
            wall_s += time.perf_counter() - began
            answers.append(answer)
            peaks.append(peak)
            yield answer
        totals = totals_of(answers, self._origin, wall_s, self._about)
        known = [peak for peak in peaks if peak is not None]
        self._totals = totals.model_copy(update={"peak_memory_bytes": max(known, default=None)})

    def totals(self) -> Totals:
        """Return the totals of the last finished `run`."""
        if self._totals is None:
            raise RuntimeError("totals() before a run was finished")
        return self._totals

    def close(self) -> None:
        """End the worker, and wait until its memory is back."""
        self._worker.close()
        memory_returned(self._gpus_before)

    def _message(self, request: Request, temperature: float) -> dict[str, Any]:
        return {
            "prompt": request.prompt,
            "max_new_tokens": request.max_new_tokens,
            "temperature": temperature,
            "top_p": self._sampling.top_p,
            "top_k": self._sampling.top_k,
            "seed": seed_of(self._sampling, request),
        }

    def _answer(self, request: Request, report: dict[str, Any]) -> Answer:
        find_stop = stop_finder(self._tokenizer, request.stop)
        answer = answer_of(request.id, report, self._origin, find_stop)
        if answer.error is not None:
            return answer
        text = self._tokenizer.decode(answer.output_ids or ())
        return answer.model_copy(update={"output_text": text})
