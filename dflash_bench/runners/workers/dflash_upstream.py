"""The authors' own loop: `dflash_generate` of the PyPI package `dflash` 0.1.0.

It tells the tokens of each step after their cut at EOS or the limit, and no times of its steps: a step is over when the
next one calls a model. It narrows the last blocks to what remains of the limit. It asks CUDA for the time even on a
CPU; its clock is replaced there by the one that it reads after the synchronisation.
"""

import contextlib
import json
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from .installed import Refused
from .torch_arm import Arm, Passes, Told
from .watched import Boundaries, Recorded


class Upstream(Arm):
    """The authors' `dflash_generate` 0.1.0; without a drafter, the same loop at block size 1."""

    def prepare(self) -> None:
        """Load the drafter as the package's README does."""
        self.dflash = import_module("dflash.model")
        if self.options:
            raise Refused(f"dflash_generate has no setting {', '.join(self.options)}.")
        if self.settings["method"] == "ar":
            self.draft = SimpleNamespace(block_size=1, mask_token_id=0, config=self.target.config)
            return
        folder = self.settings["draft"]
        names = json.loads(Path(folder, "config.json").read_text(encoding="utf-8"))["architectures"]
        second = "DFlash2DraftModel" in names
        model_class = self.dflash.DFlash2DraftModel if second else self.dflash.DFlashDraftModel
        self.draft = self.placed(model_class, folder)
        self.block_size = self.settings["block_size"] or self.draft.block_size

    def answer(self, prompt: Any, request: dict[str, Any]) -> Told:
        """Call the loop; its steps' times and the last step's own verdict are read by hooks on its models."""
        block, limit = self.block_size or 1, request["max_new_tokens"]
        sampled = Recorded(self.dflash, "_rejection_sample", lambda said: said[0])
        with (
            Boundaries(self.target, self.draft) as boundaries,
            sampled,
            self._clock_without_cuda(),
        ):
            said = self.dflash.dflash_generate(
                self.draft,
                self.target,
                prompt,
                limit,
                self.settings["stop_ids"] or None,
                temperature=request["temperature"],
                top_p=request["top_p"],
                top_k=request["top_k"],
                block_size=block,
                return_stats=True,
            )
        tokens = said.output_ids[0, prompt.shape[1] :].tolist()
        passes: Passes = [[0, 0, 1]]
        done = 1
        for committed in said.acceptance_lengths:
            # It narrows the block to what remains, the anchor counted.
            drafted = min(block, limit - done + 1) - 1
            passes.append([drafted, committed - 1, committed])
            done += committed
        if len(passes) > 1 and passes[-1][0]:
            greedy = request["temperature"] == 0
            passes[-1][1] = boundaries.last_kept() if greedy else sampled.last()
        return tokens, boundaries.times, passes

    @contextlib.contextmanager
    def _clock_without_cuda(self) -> Iterator[None]:
        free = self.target.device.type != "cuda"
        with (
            patch.object(self.dflash, "_cuda_time", time.perf_counter)
            if free
            else contextlib.nullcontext()
        ):
            yield
