"""A network whose forward pass is Hugging Face's own: any tested family, and the oracle of the lean one."""

from typing import Any

import torch
from torch import Tensor

from dflash_bench.engine.cache import CacheShape, CacheView
from dflash_bench.engine.pretrained import refuse_attention, refuse_family
from dflash_bench.engine.taps import FINAL_NORM, features


class HuggingFaceNetwork:
    """A Hugging Face causal LM in eval mode; the layers that a drafter reads are tapped by hooks."""

    def __init__(self, model: Any) -> None:
        """Wrap a model; raises ConfigError for one that cannot be verified."""
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
        self._taps: tuple[int, ...] = ()
        self._tapped: dict[int, Tensor] = {}
        self._hooks: list[Any] = []

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
        """Run tokens [A, Q]; see `Network`."""
        if taps != self._taps:
            self._hook(taps)
        logits: Tensor = self.model(
            input_ids=tokens,
            position_ids=positions,
            attention_mask=mask[:, None],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=int(last_only),
        ).logits
        return logits, features(taps, self._tapped, logits)

    def embed(self, tokens: Tensor) -> Tensor:
        """Embed tokens [A, Q] to [A, Q, H]."""
        embeddings: Tensor = self.model.get_input_embeddings()(tokens)
        return embeddings

    def lm_head(self, hidden: Tensor) -> Tensor:
        """Turn final normed hidden states [..., H] into logits [..., V]."""
        logits: Tensor = self.model.get_output_embeddings()(hidden)
        return logits

    def final_norm(self, hidden: Tensor) -> Tensor:
        """Norm the last layer's output [..., H] as the output head wants it."""
        normed: Tensor = self.model.get_decoder().norm(hidden)
        return normed

    def _hook(self, taps: tuple[int, ...]) -> None:
        """Move the hooks: who taps nothing pays for no hook and keeps no layer's output alive."""
        for hook in self._hooks:
            hook.remove()
        decoder = self.model.get_decoder()
        places = {i: decoder.norm if i == FINAL_NORM else decoder.layers[i] for i in taps}
        self._hooks = [place.register_forward_hook(self._keep(i)) for i, place in places.items()]
        self._taps, self._tapped = taps, {}

    def _keep(self, tap: int) -> Any:
        def keep(_module: Any, _inputs: Any, output: Any) -> None:
            # Some versions of transformers return a tuple of which the first member is the output.
            self._tapped[tap] = output if isinstance(output, Tensor) else output[0]

        return keep
