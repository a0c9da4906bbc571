"""Loads a target from its folder, and says by name which models cannot be one, and why.

A family is supported when verification was tested on it: the positions, the mask and the rollback
have to mean what the loop takes them to mean, and nothing fails at run time when they do not. A
drafter reads a target's embedding, final norm and output head as well: they have to be all that the
forward pass does there (Granite, which scales its logits elsewhere, is none of them for that reason).
"""

import json
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from dflash_bench.engine.hub import local_folder
from dflash_bench.errors import ConfigError

FAMILIES = ("gemma", "llama", "mistral", "olmo2", "phi3", "qwen2", "qwen3")

# Layers that fold the past into one state: a rejected token cannot be taken out of it again.
_RECURRENT = (
    *("bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "jamba", "kimi_linear", "lfm2"),
    *("mamba", "minimax", "nemotron_h", "olmo_hybrid", "plamo", "qwen3_5", "qwen3_next"),
    *("recurrent_gemma", "rwkv", "xlstm", "zamba"),
)

# RoPE variants whose angles change with the longest sequence seen: a row would depend on its batch.
_LENGTH_DEPENDENT_ROPE = ("dynamic", "longrope")


def load_pretrained(
    path_or_id: str | Path, dtype: torch.dtype, device: torch.device | str, attn: str
) -> Any:
    """Return the Hugging Face causal LM of a folder or hub id, in eval mode.

    Raises InfrastructureError if the files cannot be had, ConfigError if they are no supported
    model.
    """
    folder = local_folder(path_or_id)
    model_type = str(read_config(folder).model_type)
    # Whoever runs us shows progress.
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            attn_implementation=attn,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
    except (OSError, ValueError, LookupError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"{folder} holds no loadable {model_type} model: {reason}",
            remedy="It needs config.json and model.safetensors (or its shards) of one checkpoint.",
        ) from error
    model, info = loaded
    if info["missing_keys"]:
        # transformers would fill them with random numbers, and only warn.
        names = ", ".join(sorted(info["missing_keys"])[:6])
        raise ConfigError(
            f"The weights in {folder} lack {names}.", remedy="Download the checkpoint again."
        )
    return model.to(device).eval().requires_grad_(False)


def refuse_family(model_type: str, where: str) -> None:
    """Raise ConfigError unless models of this `model_type` can be verified and rolled back."""
    if model_type in FAMILIES:
        return
    reason = "this family has not been tested"
    if model_type.startswith(_RECURRENT):
        reason = "its recurrent state cannot be rolled back when drafts are rejected"
    raise ConfigError(
        f"{where}: model_type {model_type!r} is not supported as a target: {reason}.",
        remedy=f"Use a target of one of the families {', '.join(FAMILIES)}.",
    )


def read_config(folder: Path) -> Any:
    """Return the Hugging Face configuration of a folder; raises ConfigError if it is no supported model's."""
    file = folder / "config.json"
    refuse_family(_model_type(file), str(folder))
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    # A value of the wrong kind meets a validator, or else whatever first computes with it.
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        StrictDataclassError,
    ) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ConfigError(
            f"{file} is no valid configuration: {reason}.", remedy="Download the model again."
        ) from None


def refuse_attention(config: Any, where: str) -> None:
    """Raise ConfigError if attention is other than full causal attention with fixed RoPE angles."""
    refuse_windows(config, where)
    if config._attn_implementation != "sdpa":
        raise ConfigError(
            f"{where}: attention {config._attn_implementation!r} is not supported: eager attention"
            " adds a boolean mask instead of applying it, which hides nothing and raises nothing.",
            remedy="Use attn 'sdpa'.",
        )


def refuse_windows(config: Any, where: str) -> None:
    """Raise ConfigError if a token's keys are not seen for ever, or do not keep their angles."""
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    if kinds:
        raise _windowed(where, f"layer_types has {', '.join(sorted(kinds))}")
    # Mistral and Phi-3 have no layer_types: there the window's size is what says that there is one.
    if getattr(config, "sliding_window", None) is not None:
        raise _windowed(where, f"sliding_window is {config.sliding_window}")
    if getattr(config, "use_sliding_window", False):
        raise _windowed(where, "use_sliding_window is true")
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") in _LENGTH_DEPENDENT_ROPE:
        raise ConfigError(
            f"{where}: rope_type {rope['rope_type']!r} is not supported: its angles depend on the"
            " longest sequence of the batch, so a row's text would depend on its neighbours.",
            remedy="Use the target with its plain RoPE.",
        )


def _windowed(where: str, found: str) -> ConfigError:
    return ConfigError(
        f"{where}: {found}: only full attention is supported, since a window that has moved on"
        " cannot be rolled back.",
        remedy="Use a target without sliding-window layers.",
    )


def _model_type(file: Path) -> str:
    try:
        model_type = json.loads(file.read_text(encoding="utf-8")).get("model_type")
    except OSError as error:
        raise ConfigError(
            f"{file} does not exist."
            if isinstance(error, FileNotFoundError)
            else f"{file} cannot be read: {error.strerror}.",
            remedy="Name the folder of a Hugging Face model.",
        ) from None
    except (ValueError, AttributeError) as error:
        raise ConfigError(
            f"{file} is no valid configuration: {error}.", remedy="Download the model again."
        ) from None
    return str(model_type)
