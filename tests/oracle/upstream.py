"""The authors' own loop: `dflash_generate` of the PyPI package `dflash` 0.1.0.

What it does otherwise than ours, none of it in the tokens:

- Near the limit it narrows the block to what remains. A block that attends to itself in both
  directions drafts otherwise when it is narrower, so the last steps may accept otherwise. Undone by
  asking for one block more, and cutting the answer back.
- It asks `torch.cuda` for the time, even on a CPU. `_cuda_time` is replaced from outside, where
  there is no CUDA, by the clock that it reads after the synchronisation.

As we do, it cuts a step's count at the end of the text and counts no step for the prefill.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from dflash_bench.engine.request import Request
from tests.oracle.answers import Answer

MODULE, VERSION = "dflash.model", "0.1.0"


class Upstream:
    """Target and drafter as the authors' package runs them, one request at a time."""

    def __init__(self, model: Any, draft: Path) -> None:
        """Take a Hugging Face `model`, and load the folder `draft` as the package's README does."""
        self._model = model
        self._dflash: Any = import_module(MODULE)
        self._draft = self._dflash.DFlashDraftModel.from_pretrained(draft, dtype=model.dtype)

    def run(self, request: Request, block_size: int) -> Answer:
        """Answer as the package does; block size 1 is its AR."""
        return self._ask(request, block_size, request.max_new_tokens)

    def answer(self, request: Request, block_size: int) -> Answer:
        """Answer with the differences undone."""
        return self._ask(request, block_size, request.max_new_tokens + block_size).cut(
            request.max_new_tokens
        )

    def _ask(self, request: Request, block_size: int, new_tokens: int) -> Answer:
        with self._clock_without_cuda():
            said = self._dflash.dflash_generate(
                self._draft,
                self._model,
                torch.tensor([request.prompt]),
                new_tokens,
                sorted(request.stop_ids) or None,
                block_size=block_size,
                return_stats=True,
            )
        tokens = said.output_ids[0, len(request.prompt) :].tolist()
        return Answer(tokens, list(said.acceptance_lengths))

    @contextmanager
    def _clock_without_cuda(self) -> Iterator[None]:
        free = not torch.cuda.is_available()
        with patch.object(self._dflash, "_cuda_time", time.perf_counter) if free else nullcontext():
            yield
