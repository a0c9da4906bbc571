"""Where a stop string ends an answer, in tokens."""

from collections.abc import Sequence

from dflash_bench.engine.request import FindStop
from dflash_bench.workloads.prompts import Tokenizer


def stop_finder(tokenizer: Tokenizer, stop: Sequence[str]) -> FindStop | None:
    """Return what finds the end of the first stop string among output tokens, in tokens to keep."""
    if not stop:
        return None

    def find(output: Sequence[int]) -> int | None:
        if not any(text in tokenizer.decode(output) for text in stop):
            return None
        return next(
            keep
            for keep in range(1, len(output) + 1)
            if any(text in tokenizer.decode(output[:keep]) for text in stop)
        )

    return find
