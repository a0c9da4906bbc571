"""Hugging Face's own loop: `generate(assistant_model=..., speculation_type="dflash")`, transformers 5.23 and later.

What it does otherwise than ours, none of it in the tokens:

- Its drafter's class is that of one published checkpoint. It is the network of the others as well:
  two tensors have other names, and the configuration other keys (`assistant_of` translates).
- It tells no acceptance counts. Its streamer is given each verification's tokens in one piece, and
  first the prompt and the prefill's token: those two are dropped.
- Where only one token remains it drafts nothing; where fewer than a block remain it drafts a whole
  one and cuts, as we do.
"""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dflash_bench.engine.methods.checkpoint import read_tensors
from dflash_bench.engine.request import Request
from tests.oracle.answers import Answer

MODULE = "transformers.models.muse_glimmer_assistant"
RENAMED = {"fc.weight": "encoder.fc.weight", "hidden_norm.weight": "encoder.output_norm_enc.weight"}


class Native:
    """Target and drafter as transformers runs them, one request at a time."""

    def __init__(self, model: Any, draft: Path) -> None:
        """Take a Hugging Face `model`, and load the z-lab folder `draft`."""
        self.model = model
        self._assistant = assistant_of(draft, model.config).to(model.dtype).eval()

    def run(self, request: Request, block_size: int) -> Answer:
        """Answer as transformers does; block size 1 is its plain `generate`."""
        if block_size == 1:
            return generated(self.model, request)
        self._assistant.config.block_size = block_size
        return generated(
            self.model, request, assistant_model=self._assistant, speculation_type="dflash"
        )

    answer = run  # nothing has to be undone


def generated(model: Any, request: Request, **how: Any) -> Answer:
    """Run `model.generate` greedily, and count by its streamer."""
    prompt = torch.tensor([request.prompt])
    steps = Steps()
    said = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=request.max_new_tokens,
        do_sample=False,
        eos_token_id=sorted(request.stop_ids) or None,
        pad_token_id=0,
        streamer=steps,
        **how,
    )
    return Answer(said[0, len(request.prompt) :].tolist(), steps.sizes[2:])


class Steps:
    """A streamer that keeps the number of tokens of each piece."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def put(self, tokens: Tensor) -> None:
        self.sizes.append(tokens.numel())

    def end(self) -> None: ...


def assistant_of(draft: Path, target_config: Any) -> Any:
    """Load a z-lab folder into transformers' DFlash network."""
    module: Any = import_module(MODULE)
    config = json.loads((draft / "config.json").read_text(encoding="utf-8"))
    same = (
        *("hidden_size", "intermediate_size", "num_hidden_layers", "head_dim", "layer_types"),
        *("num_attention_heads", "num_key_value_heads", "rms_norm_eps", "hidden_act"),
    )
    shape = module.MuseGlimmerAssistantConfig(
        **{key: config[key] for key in same},
        block_size=config["block_size"],
        mask_token_id=config["dflash_config"]["mask_token_id"],
        target_layer_ids=config["dflash_config"]["target_layer_ids"],
        rope_parameters={"rope_type": "default", "rope_theta": config["rope_theta"]},
        max_position_embeddings=target_config.max_position_embeddings,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        attn_implementation="sdpa",
    )
    assistant = module.MuseGlimmerAssistantModel(shape)
    weights = {RENAMED.get(name, name): tensor for name, tensor in read_tensors(draft).items()}
    assistant.load_state_dict(weights)
    return assistant
