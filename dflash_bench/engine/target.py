"""The model whose text is wanted: a Hugging Face causal LM behind three verbs.

    reserve       room for the batch's keys and values, and hooks on the layers that a drafter reads
    prefill       one prompt, into one row
    verify_block  K tokens of every active row, each row at its own positions

One attention path serves them all, sdpa with explicit positions and an explicit boolean mask, so
that AR, verification and prefill differ in nothing but the number of tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dflash_bench.engine.cache import CacheShape, KVCache
from dflash_bench.engine.pretrained import load_pretrained, refuse_attention, refuse_family


@dataclass(frozen=True)
class Verdict:
    """What the target says of the tokens that it was given.

    logits    [A, K, V]: row j judges what follows token j; prefill gives its last row, [1, 1, V]
    features  [A, K, m*H]: outputs of the m tapped layers, concatenated; m may be 0
    """

    logits: Tensor
    features: Tensor


class Target:
    """A causal LM, its cache, and the taps on its layers."""

    def __init__(self, model: Any) -> None:
        """Wrap a Hugging Face model; raises ConfigError for one that cannot be verified."""
        config = model.config
        refuse_family(config.model_type, type(model).__name__)
        refuse_attention(config, type(model).__name__)
        self._model = model
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self.hidden_size: int = config.hidden_size
        self.vocab_size: int = config.vocab_size
        self.num_layers: int = config.num_hidden_layers
        self.max_positions: int = config.max_position_embeddings
        head_dim: int | None = getattr(config, "head_dim", None)
        self._cache_shape = CacheShape(
            num_layers=config.num_hidden_layers,
            kv_heads=config.num_key_value_heads,
            head_dim=head_dim or config.hidden_size // config.num_attention_heads,
            dtype=model.dtype,
            device=model.device,
        )
        self._cache = KVCache(self._cache_shape)
        self._taps: tuple[int, ...] = ()
        self._tapped: dict[int, Tensor] = {}
        self._hooks: list[Any] = []

    @classmethod
    def load(
        cls,
        path_or_id: str | Path,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        attn: str = "sdpa",
    ) -> "Target":
        """Load a folder or hub id; see `pretrained` for what is refused."""
        return cls.from_model(load_pretrained(path_or_id, dtype, device, attn))

    @classmethod
    def from_model(cls, model: Any) -> "Target":
        """Wrap a Hugging Face causal LM that is already in memory."""
        return cls(model.eval())

    @property
    def eos_ids(self) -> frozenset[int]:
        """The tokens that end a text, from the generation configuration or else the model's own."""
        ids = self._model.generation_config.eos_token_id
        if ids is None:
            ids = self._model.config.eos_token_id
        return frozenset(() if ids is None else [ids] if isinstance(ids, int) else ids)

    def kv_bytes_per_token(self) -> int:
        """Bytes of keys and values that one token of context occupies."""
        return self._cache_shape.bytes_per_token()

    def embed(self, tokens: Tensor) -> Tensor:
        """Embed tokens [A, K] to [A, K, H]."""
        embeddings: Tensor = self._model.get_input_embeddings()(tokens)
        return embeddings

    def lm_head(self, hidden: Tensor) -> Tensor:
        """Turn final hidden states [A, K, H] into logits [A, K, V]."""
        logits: Tensor = self._model.get_output_embeddings()(hidden)
        return logits

    def reserve(self, rows: int, max_length: int, taps: tuple[int, ...] = ()) -> None:
        """Make room for `rows` sequences of `max_length` tokens, and tap the layers `taps`.

        Tap i is the *output* of decoder layer i, counted from 0.
        """
        self._cache.reserve(rows, max_length)
        for hook in self._hooks:
            hook.remove()
        layers = self._model.get_decoder().layers
        self._taps, self._tapped = taps, {}
        self._hooks = [layers[i].register_forward_hook(self._keep_output(i)) for i in set(taps)]

    @torch.inference_mode()
    def prefill(self, row: int, prompt: Sequence[int]) -> Verdict:
        """Run a prompt of T tokens into `row`; features are of all T tokens."""
        tokens = torch.tensor([prompt], device=self.device)  # [1, T]
        return self._forward(tokens, row, [0], logits_to_keep=1)

    @torch.inference_mode()
    def verify_block(self, tokens: Tensor, lengths: Sequence[int]) -> Verdict:
        """Run blocks [A, K] of the first A rows, row b at positions lengths[b] and on."""
        return self._forward(tokens, 0, lengths, logits_to_keep=0)

    def move_row(self, source: int, destination: int) -> None:
        """Let the sequence of row `source` live in row `destination` from now on."""
        self._cache.move_row(source, destination)

    def _forward(
        self, tokens: Tensor, first_row: int, lengths: Sequence[int], logits_to_keep: int
    ) -> Verdict:
        width = tokens.shape[1]
        positions = block_positions(lengths, width, self.device)  # [A, K]
        view = max(lengths) + width
        slots = torch.arange(view, device=self.device)
        logits: Tensor = self._model(
            input_ids=tokens,
            position_ids=positions,
            attention_mask=(slots <= positions[..., None])[:, None],  # [A, 1, K, view]
            past_key_values=self._cache.at(first_row, positions, view),
            use_cache=True,
            logits_to_keep=logits_to_keep,
        ).logits
        if not self._taps:
            return Verdict(logits, logits[..., :0])
        return Verdict(logits, torch.cat([self._tapped[i] for i in self._taps], -1))

    def _keep_output(self, layer: int) -> Any:
        def keep(_module: Any, _inputs: Any, output: Any) -> None:
            # Some versions of transformers return a tuple of which the first member is the output.
            self._tapped[layer] = output if isinstance(output, Tensor) else output[0]

        return keep


def block_positions(lengths: Sequence[int], width: int, device: torch.device) -> Tensor:
    """Return the positions [A, K] of blocks that start where each row ends."""
    starts = torch.tensor(lengths, device=device)
    return starts[:, None] + torch.arange(width, device=device)
