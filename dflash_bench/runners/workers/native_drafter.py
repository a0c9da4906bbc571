"""A drafter in z-lab's format, as transformers' own DFlash takes it.

transformers' drafter is the class of one published checkpoint, and the network of the others as well: two tensors and
some configuration keys have other names.
"""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from .installed import Refused

NATIVE = "transformers.models.muse_glimmer_assistant"
RENAMED = {"fc.weight": "encoder.fc.weight", "hidden_norm.weight": "encoder.output_norm_enc.weight"}


def assistant_of(module: Any, draft: Path, target_config: Any) -> Any:
    """Load a z-lab folder into transformers' DFlash network."""
    config = json.loads((draft / "config.json").read_text(encoding="utf-8"))
    if "DFlashDraftModel" not in config["architectures"]:
        raise Refused(
            f"{draft}: transformers' own DFlash has no {', '.join(config['architectures'])};"
            " set options: {implementation: upstream}."
        )
    same = (
        *("hidden_size", "intermediate_size", "num_hidden_layers", "head_dim", "layer_types"),
        *("num_attention_heads", "num_key_value_heads", "rms_norm_eps", "hidden_act"),
    )
    rope = config.get("rope_parameters") or {
        "rope_type": "default",
        "rope_theta": config["rope_theta"],
    }
    shape = module.MuseGlimmerAssistantConfig(
        **{key: config[key] for key in same},
        block_size=config["block_size"],
        mask_token_id=config["dflash_config"]["mask_token_id"],
        target_layer_ids=config["dflash_config"]["target_layer_ids"],
        rope_parameters=rope,
        max_position_embeddings=target_config.max_position_embeddings,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        attn_implementation="sdpa",
    )
    assistant = module.MuseGlimmerAssistantModel(shape)
    load_file = import_module("safetensors.torch").load_file
    tensors = {
        name: tensor
        for file in sorted(draft.glob("*.safetensors"))
        for name, tensor in load_file(file).items()
    }
    assistant.load_state_dict({RENAMED.get(name, name): tensor for name, tensor in tensors.items()})
    return assistant
