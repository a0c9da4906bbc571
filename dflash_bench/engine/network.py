"""A causal LM without a cache of its own: tokens in, logits and features out."""

from typing import Any, Protocol

import torch
from torch import Tensor

from dflash_bench.engine.cache import CacheShape, CacheView
from dflash_bench.engine.pretrained import refuse_attention, refuse_family

FINAL_NORM = -1
"""The tap of the final normed hidden state, which the output head reads."""


class Network(Protocol):
    """What a target asks of a model."""

    hidden_size: int
    vocab_size: int
    num_layers: int
    max_positions: int
    dtype: torch.dtype
    device: torch.device
    cache_shape: CacheShape
    eos_ids: frozenset[int]

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        mask: Tensor,
        cache: CacheView,
        taps: tuple[int, ...],
        last_only: bool,
    ) -> tuple[Tensor, Tensor]: ...
    def embed(self, tokens: Tensor) -> Tensor: ...
    def lm_head(self, hidden: Tensor) -> Tensor: ...
    def final_norm(self, hidden: Tensor) -> Tensor: ...


class HuggingFaceNetwork:
    """A Hugging Face causal LM; layers are tapped by hooks."""

    def __init__(self, model: Any) -> None:
        config = model.config
        refuse_family(config.model_type, type(model).__name__)
        refuse_attention(config, type(model).__name__)
        self.model = model
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self.hidden_size: int = config.hidden_size
        self.vocab_size: int = config.vocab_size
        self.num_layers: int = config.num_hidden_layers
        self.max_positions: int = config.max_position_embeddings
        head_dim: int | None = getattr(config, "head_dim", None)
        self.cache_shape = CacheShape(
            num_layers=config.num_hidden_layers,
            kv_heads=config.num_key_value_heads,
            head_dim=head_dim or config.hidden_size // config.num_attention_heads,
            dtype=model.dtype,
            device=model.device,
        )
        self._tapped: dict[int, Tensor] = {}
        for index, layer in enumerate(model.get_decoder().layers):
            layer.register_forward_hook(self._keep(index))
        model.get_decoder().norm.register_forward_hook(self._keep(FINAL_NORM))

    @property
    def eos_ids(self) -> frozenset[int]:
        """The tokens that end a text, from the generation configuration or else the model's own."""
        ids = self.model.generation_config.eos_token_id
        if ids is None:
            ids = self.model.config.eos_token_id
        return frozenset(() if ids is None else [ids] if isinstance(ids, int) else ids)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        mask: Tensor,
        cache: CacheView,
        taps: tuple[int, ...],
        last_only: bool,
    ) -> tuple[Tensor, Tensor]:
        logits: Tensor = self.model(
            input_ids=tokens,
            position_ids=positions,
            attention_mask=mask[:, None],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=int(last_only),
        ).logits
        if not taps:
            return logits, logits[..., :0]
        return logits, torch.cat([self._tapped[i] for i in taps], -1)

    def embed(self, tokens: Tensor) -> Tensor:
        embeddings: Tensor = self.model.get_input_embeddings()(tokens)
        return embeddings

    def lm_head(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.model.get_output_embeddings()(hidden)
        return logits

    def final_norm(self, hidden: Tensor) -> Tensor:
        normed: Tensor = self.model.get_decoder().norm(hidden)
        return normed

    def _keep(self, index: int) -> Any:
        def keep(_module: Any, _inputs: Any, output: Any) -> None:
            self._tapped[index] = output if isinstance(output, Tensor) else output[0]

        return keep


def network_of(model: Any) -> Network:
    """Return the network of a Hugging Face causal LM."""
    return HuggingFaceNetwork(model)
