"""A drafter in z-lab's format, as transformers' own DFlash takes it.

transformers' drafter is the class of one published checkpoint, and the network of the others as well: two tensors and
some configuration keys have other names. What other checkpoints say beyond that class is refused here, for it would
draft as another network does, and nothing but a lower acceptance would show it.
"""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from .installed import Refused

NATIVE = "transformers.models.muse_glimmer_assistant"
RENAMED = {"fc.weight": "encoder.fc.weight", "hidden_norm.weight": "encoder.output_norm_enc.weight"}
# Keys of z-lab's format that the class does not read, each with the values that change nothing.
NEUTRAL: dict[str, tuple[object, ...]] = {
    "input_embedding_scale": (None, 1.0),
    "output_multiplier": (None, 1.0),
    "final_logit_softcapping": (None, 0.0),
    "attention_bias": (None, False),
    "is_causal": (None, False),
}
SAME = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "head_dim", "layer_types"),
    *("num_attention_heads", "num_key_value_heads", "rms_norm_eps", "hidden_act"),
)


def assistant_of(module: Any, draft: Path, target_config: Any) -> Any:
    """Load a z-lab folder into transformers' DFlash network."""
    assistant = module.MuseGlimmerAssistantModel(
        module.MuseGlimmerAssistantConfig(**shape_of(draft, target_config.max_position_embeddings))
    )
    load_file = import_module("safetensors.torch").load_file
    tensors = {
        name: tensor
        for file in sorted(draft.glob("*.safetensors"))
        for name, tensor in load_file(file).items()
    }
    assistant.load_state_dict({RENAMED.get(name, name): tensor for name, tensor in tensors.items()})
    return assistant


def shape_of(draft: Path, max_positions: int) -> dict[str, Any]:
    """Return the words of transformers' configuration for the drafter in `draft`.

    Raises Refused for what the network would leave out.
    """
    config = json.loads((draft / "config.json").read_text(encoding="utf-8"))
    if "DFlashDraftModel" not in config["architectures"]:
        raise _refused(draft, ", ".join(config["architectures"]))
    # Newer checkpoints have in `dflash_config` what older ones have on top, as the authors' code reads them.
    told = {**config, **config.get("dflash_config", {})}
    for key, neutral in NEUTRAL.items():
        if told.get(key) not in neutral:
            raise _refused(draft, f"{key} {told[key]}")
    scaling = config.get("rope_scaling") or {}
    if scaling.get("rope_type", scaling.get("type", "default")) != "default":
        raise _refused(draft, f"rope_scaling {scaling}")
    return {
        **{key: config[key] for key in SAME},
        **_window(draft, config, told["block_size"]),
        "block_size": told["block_size"],
        "mask_token_id": told["mask_token_id"],
        "target_layer_ids": told["target_layer_ids"],
        "rope_parameters": config.get("rope_parameters")
        or {"rope_type": "default", "rope_theta": config["rope_theta"]},
        "max_position_embeddings": config.get("max_position_embeddings") or max_positions,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
        "attn_implementation": "sdpa",
    }


def _window(draft: Path, config: dict[str, Any], block_size: int) -> dict[str, Any]:
    """Return the window of sliding layers. Both ways the class looks as far as it says, the authors' code one less.

    In the authors' code a sliding layer is causal unless told otherwise, in the class it never is.
    """
    if "sliding_attention" not in config["layer_types"]:
        return {}
    window = config["sliding_window"]
    if config.get("is_causal") is not False:
        raise _refused(draft, "causal sliding_attention layers")
    if not isinstance(window, int) or window <= block_size:
        raise _refused(draft, f"sliding_window {window} within a block of {block_size}")
    return {"sliding_window": window - 1}


def _refused(draft: Path, what: str) -> Refused:
    return Refused(
        f"{draft}: transformers' own DFlash has no {what}; set options: {{implementation: upstream}}."
    )
