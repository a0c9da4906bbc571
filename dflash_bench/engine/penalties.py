"""Penalties: a token that has occurred becomes less likely, before anything is chosen.

    repetition  what is in the prompt or the output: a logit above 0 is divided by it, one below multiplied
                (CTRL, arXiv:1909.05858; transformers' RepetitionPenaltyLogitsProcessor)
    frequency   is subtracted as often as the token is in the output
    presence    is subtracted once if the token is in the output (both OpenAI's definition)

The order is vLLM's (`apply_penalties`), as is what counts: the prompt only for repetition.

What a node of a block is judged by includes the drafts on its path, which stand for output that would be
committed by then. So a block's logits are those that plain decoding would have, node by node.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from dflash_bench.engine.draft import Draft
from dflash_bench.engine.sampling import Sampling


class Penalties:
    """What was said in each row of the batch. Without a penalty nothing is kept, and nothing changed."""

    def __init__(self, sampling: Sampling, rows: int) -> None:
        """Prepare for `rows` sequences; the first `admit` tells vocabulary and device."""
        self._repetition = sampling.repetition_penalty
        self._presence = sampling.presence_penalty
        self._frequency = sampling.frequency_penalty
        self._active = (self._repetition, self._presence, self._frequency) != (1.0, 0.0, 0.0)
        self._rows = rows
        self._prompt = self._output = torch.empty(0)

    def admit(self, row: int, prompt: Sequence[int], logits: Tensor) -> Tensor:
        """Start the text of `row` with its prompt; return its first logits [1, 1, V], penalised."""
        if not self._active:
            return logits
        if not self._prompt.numel():
            shape, device = (self._rows, logits.shape[-1]), logits.device
            self._prompt = torch.zeros(shape, dtype=torch.bool, device=device)
            self._output = torch.zeros(shape, device=device)  # counts
        self._output[row] = 0.0
        self._prompt[row] = False
        self._prompt[row, torch.tensor(prompt, device=logits.device)] = True
        return self._penalise(logits, slice(row, row + 1), self._output[None, row : row + 1])

    def apply(self, draft: Draft, logits: Tensor) -> Tensor:
        """Return the logits [A, N+1, V] of the block of `draft`, each node's penalised for its path."""
        if not self._active:
            return logits
        rows, width, _ = logits.shape
        counts = self._output[:rows, None].repeat(1, width, 1)
        # The anchor, node 0, is committed, and counted already.
        path = draft.family()[..., 1:].to(counts.dtype)  # [A, N+1, N]
        counts.scatter_add_(2, draft.tokens[:, None].expand_as(path), path)
        return self._penalise(logits, slice(rows), counts)

    def commit(self, tokens: Sequence[Sequence[int]], first_row: int = 0) -> None:
        """Count the committed tokens of the rows from `first_row` on."""
        if not self._active:
            return
        pairs = [(row, each) for row, some in enumerate(tokens, first_row) for each in some]
        index = torch.tensor(pairs, device=self._output.device).unbind(1)
        self._output.index_put_(index, self._output.new_ones(()), accumulate=True)

    def move_row(self, source: int, destination: int) -> None:
        """Let the sequence of row `source` live in row `destination` from now on."""
        if self._active:
            for store in (self._prompt, self._output):
                store[destination] = store[source]

    def _penalise(self, logits: Tensor, rows: slice, counts: Tensor) -> Tensor:
        """Penalise logits [A, K, V] in float32, as transformers and vLLM do, by output `counts` [A, K, V]."""
        logits, said = logits.float(), counts > 0
        divided = torch.where(logits > 0, logits / self._repetition, logits * self._repetition)
        logits = torch.where(said | self._prompt[rows, None], divided, logits)
        return logits - self._frequency * counts - self._presence * said
