"""DFlash as vLLM's `speculators` library writes it (RedHatAI's drafters): the same network, told otherwise.

    {"speculators_model_type": "dflash", "block_size": 8, "mask_token_id": 151669,
     "aux_hidden_state_layer_ids": [2, 10, 18, 26, 34], "draft_vocab_size": 32000,
     "transformer_layer_config": {"model_type": "qwen3", "hidden_size": 4096, ...}, ...}

- Number i of `aux_hidden_state_layer_ids` is `hidden_states[i]`, the output of decoder layer i-1: one more
  than z-lab's number for the same tap.
- The checkpoint may embed and speak for itself: `embed_tokens`, and an `lm_head` over a vocabulary of its
  own, of which `d2t` tells the target's ids as offsets (id = d + d2t[d]) and `t2d` which ones they are.
- Sliding layers are causal unless `sliding_window_non_causal`; full ones see both directions.
- `sample_from_anchor`: a slot predicts the token after its own position.

Read from speculators' `models/dflash/config.py` and `core.py`, and from a published configuration.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from dflash_bench.engine.methods import dflash_fields, fields
from dflash_bench.engine.methods.dflash_attention import LayerAttention
from dflash_bench.engine.methods.dflash_shape import DFlashConfig
from dflash_bench.engine.methods.fields import ConfigFile, Json, refusal
from dflash_bench.errors import ConfigError

# Keys with the only values that mean the network of this package.
_FIXED: dict[str, tuple[object, ...]] = {
    "speculators_model_type": ("dflash",),
    "projector_type": ("dflash", None),
    "shift_label": (False, None),
}
# Keys of training, of serving and of heads that `projector_type` leaves out.
_HARMLESS = {
    *("speculators_config", "speculators_version", "max_anchors", "auf", "pure_draft_prefix_len"),
    *("emb_dim", "gru_hidden_dim", "lambda_base_start", "lambda_base_decay_ratio"),
    *("has_no_defaults_at_init", "proposal_speculative_tokens"),
}
_READ = {
    *("transformer_layer_config", "draft_vocab_size", "block_size", "target_hidden_size"),
    *("aux_hidden_state_layer_ids", "mask_token_id", "sliding_window_non_causal"),
    "sample_from_anchor",
}
_NESTED = {
    *(
        *dflash_fields.SHAPES,
        "rms_norm_eps",
        *dflash_fields.ROPE_KEYS,
        *dflash_fields.ATTENTION_KEYS,
        *dflash_fields.HARMLESS,
    ),
}
_EMBEDDING, _HEAD = "embed_tokens.weight", "lm_head.weight"
# The target's own, which older checkpoints carry for their training.
_UNUSED = ("verifier_lm_head.weight", "verifier_norm.weight")


def to_config(raw: Json, file: ConfigFile) -> DFlashConfig:
    """Turn a speculators `config.json` into a network's shape, as far as it tells; see `with_tensors`."""
    for key, value in raw.items():
        if key in _FIXED and value not in _FIXED[key]:
            raise refusal(file, key, value, f"only {_FIXED[key][0]!r} is supported")
    top = [key for key in raw if key != "model_type"]  # some files say "speculator_model" there
    dflash_fields.refuse_unknown(
        top, {*_FIXED, *_HARMLESS, *_READ, *dflash_fields.HARMLESS}, raw, file
    )
    layer = raw.get("transformer_layer_config")
    if not isinstance(layer, dict):
        raise refusal(file, "transformer_layer_config", layer, "an object is needed here")
    dflash_fields.refuse_unknown(
        [f"transformer_layer_config.{key}" for key in layer], _NESTED, layer, file
    )
    hidden = fields.integer(layer, "hidden_size", file)
    if raw.get("target_hidden_size") not in (None, hidden):
        reason = f"only the drafter's own, {hidden}, is supported"
        raise refusal(file, "target_hidden_size", raw["target_hidden_size"], reason)
    taps = dflash_fields.layer_ids(raw, "aux_hidden_state_layer_ids", file, least=1)
    from_anchor = bool(fields.boolean(raw, "sample_from_anchor", file))
    return DFlashConfig(
        **dflash_fields.shapes(layer, file),
        **dflash_fields.rope(layer, file),
        rms_norm_eps=fields.number(layer, "rms_norm_eps", file),
        block_size=fields.integer(raw, "block_size", file, least=1 if from_anchor else 2),
        mask_token_id=fields.integer(raw, "mask_token_id", file, least=0),
        target_layer_ids=tuple(tap - 1 for tap in taps),
        attention=_attention(raw, layer, file),
        draft_vocab_size=fields.integer(raw, "draft_vocab_size", file),
        sample_from_anchor=from_anchor,
    )


def _attention(raw: Json, layer: Json, file: ConfigFile) -> tuple[LayerAttention, ...]:
    both_ways = bool(fields.boolean(raw, "sliding_window_non_causal", file))
    if layer.get("is_causal") is not None:
        raise refusal(
            file, "is_causal", layer["is_causal"], "this format has sliding_window_non_causal"
        )
    return tuple(
        replace(each, causal=each.causal and not both_ways)
        for each in dflash_fields.attention(layer, {}, file)
    )


def with_tensors(
    config: DFlashConfig, tensors: Mapping[str, Tensor], folder: Path
) -> tuple[DFlashConfig, dict[str, Tensor]]:
    """Settle what only the weights tell: whether the checkpoint embeds and speaks for itself.

    Returns the settled configuration, and the tensors that the network holds. Raises ConfigError if
    `t2d` and `d2t` name different tokens, or `d2t` one that the target does not have.
    """
    kept = {name: t for name, t in tensors.items() if name not in (*_UNUSED, "t2d")}
    reduced = config.draft_vocab_size != config.vocab_size
    if not reduced:
        kept.pop("d2t", None)
    config = replace(
        config,
        own_embeddings=_EMBEDDING in kept,
        draft_vocab_size=config.draft_vocab_size if reduced or _HEAD in kept else None,
    )
    if reduced and "d2t" in kept:
        _check_map(kept["d2t"], tensors.get("t2d"), config, folder)
    return config, kept


def _check_map(d2t: Tensor, t2d: Tensor | None, config: DFlashConfig, folder: Path) -> None:
    tokens = d2t + torch.arange(len(d2t))
    if int(tokens.min()) < 0 or int(tokens.max()) >= config.vocab_size:
        wrong = f"d2t names token {int(tokens.min())}..{int(tokens.max())}"
        expected = f"0..{config.vocab_size - 1} are the target's"
    elif t2d is not None and not torch.equal(t2d.nonzero()[:, 0], tokens.sort().values):
        wrong, expected = "t2d and d2t name different tokens", "they are each other's inverse"
    else:
        return
    raise ConfigError(f"{folder}: {wrong}; {expected}.", remedy="Download the checkpoint again.")
