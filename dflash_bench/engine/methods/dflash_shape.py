"""What defines a DFlash network, whatever format its checkpoint has: shapes, taps, attention, extras."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dflash_bench.engine.methods.dflash_attention import LayerAttention


@dataclass(frozen=True)
class SecondShape:
    """What DFlash2 adds: convolutions around each sublayer, and a selector of candidates.

    conv_kernel_size  tokens that a convolution mixes, the token itself and those before it
    conv_group_size   channels that share one dynamic kernel
    selector_rank     width of the selector's codebooks
    selector_top_k    candidates per slot
    """

    conv_kernel_size: int
    conv_group_size: int
    selector_rank: int
    selector_top_k: int


@dataclass(frozen=True)
class DFlashConfig:
    """The draft network's shape, and how it is tied to its target.

    `block_size` counts the anchor: a block of 16 drafts 15 tokens. `target_layer_ids` are those
    decoder layers of the target, counted from 0, whose *output* is read (`hidden_states[i + 1]` in
    transformers). `num_target_layers` is None in a checkpoint that does not tell.

    rope_scaling              RoPE's parameters beside its base, with `rope_type`; None: plain RoPE
    max_position_embeddings   what some RoPE types take their measure from
    attention                 one per layer; empty: all layers full, in both directions
    second                    what DFlash2 adds; None: first generation
    output_multiplier, input_embedding_scale, final_logit_softcapping
                              factors of logits and embeddings, and the bound c of c * tanh(logits / c)
    own_embeddings            embeds the block itself instead of borrowing the target's embedding
    draft_vocab_size          the tokens that its own output head says, `d2t` telling which they are
                              where it is less than `vocab_size`; None: it borrows the target's head
    sample_from_anchor        slot j predicts the token after its own position: K slots draft K tokens
    noise_scale               not masks but Gaussian noise of this loudness fills the slots; see dflash_noise
    """

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    rms_norm_eps: float
    rope_theta: float
    block_size: int
    mask_token_id: int
    target_layer_ids: tuple[int, ...]
    num_target_layers: int | None = None
    rope_scaling: Mapping[str, Any] | None = None
    max_position_embeddings: int | None = None
    attention: tuple[LayerAttention, ...] = ()
    second: SecondShape | None = None
    output_multiplier: float = 1.0
    input_embedding_scale: float = 1.0
    final_logit_softcapping: float | None = None
    own_embeddings: bool = False
    draft_vocab_size: int | None = None
    sample_from_anchor: bool = False
    noise_scale: float | None = None

    @property
    def layers(self) -> tuple[LayerAttention, ...]:
        """The attention of each layer, spelled out."""
        return self.attention or (LayerAttention(),) * self.num_hidden_layers

    @property
    def rope_parameters(self) -> dict[str, Any]:
        """RoPE as a transformers 5 configuration has it."""
        scaling = self.rope_scaling or {"rope_type": "default"}
        return {"rope_theta": self.rope_theta, **scaling}

    @property
    def max_nodes(self) -> int:
        """The most nodes of a verify block: the anchor and what one block drafts."""
        return self.block_size + self.sample_from_anchor
