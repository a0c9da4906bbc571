"""The two ends of a DFlash network: from tokens to embeddings, and from hidden states to logits.

Published drafters have neither and borrow the target's; speculators' may have their own, over a smaller
vocabulary. To mistake one for the other changes no output and leaves next to no acceptance, so what the
checkpoint carries is what is used.
"""

import torch
from torch import Tensor

from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.engine.target import Target


class DraftHead:
    """The embedding and the output head of one drafter."""

    def __init__(self, model: DFlashModel, target: Target) -> None:
        config = self._config = model.config
        self._target = target
        self._own_embedding = model.embed_tokens if config.own_embeddings else None
        self._own_head = None if config.draft_vocab_size is None else model.lm_head
        self._tokens: Tensor | None = (
            None  # [V'] the target's id of each token of a smaller vocabulary
        )
        if self._own_head is not None and config.draft_vocab_size != config.vocab_size:
            self._tokens = model.d2t + torch.arange(len(model.d2t), device=model.d2t.device)
        self._table: Tensor | None = None

    def embed(self, tokens: Tensor) -> Tensor:
        """Embed tokens [A, K] to [A, K, H], in memory of their own."""
        own, scale = self._own_embedding, self._config.input_embedding_scale
        embedded: Tensor = self._target.embed(tokens) if own is None else own(tokens)
        return embedded if scale == 1.0 else embedded * scale

    def table(self) -> Tensor:
        """Return the embeddings of all tokens, [V, H]."""
        if self._table is None:
            self._table = self.embed(
                torch.arange(self._config.vocab_size, device=self._target.device)
            )
        return self._table

    def logits(self, hidden: Tensor) -> Tensor:
        """Turn final normed hidden states [A, N, H] into logits [A, N, V] over the target's vocabulary.

        A token that the drafter cannot say has -inf.
        """
        config, own = self._config, self._own_head
        hidden = hidden.contiguous()  # of a slice torch would make one product per row
        logits: Tensor = self._target.lm_head(hidden) if own is None else own(hidden)
        if config.output_multiplier != 1.0:
            logits = logits * config.output_multiplier
        if (cap := config.final_logit_softcapping) is not None:
            logits = torch.tanh(logits / cap) * cap
        if self._tokens is None:
            return logits
        whole = logits.new_full((*logits.shape[:-1], config.vocab_size), -torch.inf)
        whole[..., self._tokens] = logits
        return whole
