"""A drop-in for Hugging Face's `generate`: the same inputs, the same result, drafted.

    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="bfloat16").cuda()
    fast = SpeculativeGenerator(model, "z-lab/Qwen3-8B-DFlash-b16")
    ids = fast.generate(**inputs, max_new_tokens=256)

Greedy output is `model.generate`'s own, but for near-ties, which another order of summing may decide
otherwise: rare in float32, not so in bfloat16. A sampled one has the same law. What a generation
configuration may ask for and this engine does not do is refused, not ignored.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig

from dflash_bench.engine.hub import local_folder
from dflash_bench.engine.identify import identify
from dflash_bench.engine.loop import Admitted, generate
from dflash_bench.engine.methods.base import Drafter
from dflash_bench.engine.registry import build, check
from dflash_bench.engine.request import Request
from dflash_bench.engine.sampling import Sampling
from dflash_bench.engine.target import Target
from dflash_bench.errors import ConfigError

# Settings of a generation configuration that this engine honours, or that change no token.
_HONOURED = {
    *("max_new_tokens", "max_length", "do_sample", "temperature", "top_k", "top_p"),
    *("repetition_penalty", "eos_token_id", "pad_token_id"),
}
_HARMLESS = {"bos_token_id", "transformers_version", "use_cache", "cache_implementation"}
# Values with which a setting asks for nothing, where that is not None or False.
_NEUTRAL = {
    "num_beams": 1,
    "num_return_sequences": 1,
    "length_penalty": 1.0,
    "typical_p": 1.0,
    "min_length": 0,
    "no_repeat_ngram_size": 0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "diversity_penalty": 0.0,
    "encoder_repetition_penalty": 1.0,
    "num_beam_groups": 1,
    "encoder_no_repeat_ngram_size": 0,
}


class SpeculativeGenerator:
    """A Hugging Face causal LM with a drafter beside it."""

    def __init__(self, model: Any, drafter: Drafter | str | Path, **settings: object) -> None:
        """Take a loaded `model`, and a drafter or the folder or hub id of its checkpoint.

        The checkpoint tells its method; `settings` are that method's, such as block_size. Raises
        ConfigError for a model or a checkpoint that does not fit, and for settings that would be ignored.
        """
        if settings and not isinstance(drafter, str | Path):
            raise ConfigError(
                f"SpeculativeGenerator: {sorted(settings)[0]} is a setting of a checkpoint, but the drafter is"
                " built already.",
                remedy="Build the drafter with it, or name a checkpoint.",
            )
        self._target = Target.from_model(model)
        self._defaults: GenerationConfig = model.generation_config
        if isinstance(drafter, str | Path):
            folder = local_folder(drafter)
            method, settings = identify(folder).method, {**settings, "draft": folder}
            check(method, settings)
            drafter = build(method, self._target, settings)
        self._drafter = drafter

    @torch.inference_mode()
    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        generation_config: GenerationConfig | None = None,
        seed: int = 0,
        **changes: Any,
    ) -> Tensor:
        """Continue every row of `input_ids` [B, T]; padding is where `attention_mask` [B, T] is 0.

        `changes` are settings of a generation configuration (max_new_tokens, do_sample, ...), laid
        over `generation_config`, which is laid over the model's own. Without a mask, padding is where
        the padding token is, unless that may end a text. A penalty counts no padding, unlike Hugging Face's
        own. `seed` numbers the noise of sampling. Returns [B, T + longest answer] of the dtype of
        `input_ids`, rows that ended earlier padded on the right.
        """
        asked = _settings([self._defaults, generation_config], changes)
        stop_ids = frozenset(_ids(asked.get("eos_token_id")))
        pad = asked.get("pad_token_id")
        if attention_mask is None and pad is not None and pad not in stop_ids:
            attention_mask = input_ids.ne(pad)
        prompts = _prompts(input_ids, attention_mask)
        limit = _new_tokens(asked, input_ids.shape[1])
        requests = [
            Request(str(row), tuple(prompt), limit, stop_ids, key=row)
            for row, prompt in enumerate(prompts)
        ]
        answers: list[list[int]] = [[] for _ in requests]
        sampling = _sampling(asked, seed)
        for event in generate(
            self._target, self._drafter, requests, batch_size=len(requests), sampling=sampling
        ):
            if isinstance(event, Admitted):
                answers[int(event.request_id)].append(event.first_token)
                continue
            for row in event.rows:
                answers[int(row.request_id)] += row.tokens
        return torch.cat((input_ids, _padded(answers, asked, input_ids)), dim=1)


def _settings(layers: Sequence[GenerationConfig | None], changes: dict[str, Any]) -> dict[str, Any]:
    """Return what is asked for, by name, the last layer first; raises ConfigError for what would be ignored."""
    asked: dict[str, Any] = {}
    for layer in layers:
        asked |= {} if layer is None else layer.to_diff_dict()
    asked |= changes
    for name, value in asked.items():
        if name.startswith("_") or name in _HONOURED | _HARMLESS:
            continue
        if value is not None and value is not False and value != _NEUTRAL.get(name):
            raise ConfigError(
                f"generate: {name} is {repr(value)[:80]}, which the speculative generator does not do.",
                remedy=f"Leave it out, or use the model's own generate. It takes {sorted(_HONOURED)}.",
            )
    return asked


def _prompts(input_ids: Tensor, attention_mask: Tensor | None) -> list[list[int]]:
    """Return each row's tokens without its padding."""
    if input_ids.ndim != 2:
        raise ConfigError(
            f"generate: input_ids has shape {list(input_ids.shape)}, expected [rows, tokens].",
            remedy="Tokenize with return_tensors='pt'.",
        )
    if attention_mask is None:
        rows: list[list[int]] = input_ids.tolist()
        return rows
    if attention_mask.shape != input_ids.shape:
        raise ConfigError(
            f"generate: attention_mask has shape {list(attention_mask.shape)}, expected"
            f" {list(input_ids.shape)}, that of input_ids.",
            remedy="Pass both as the tokenizer gave them.",
        )
    if not bool(attention_mask[:, -1].all()):
        raise ConfigError(
            "generate: attention_mask ends with 0 in some row: the prompts are padded on the right.",
            remedy="Tokenize with padding_side='left'.",
        )
    return [ids[kept.bool()].tolist() for ids, kept in zip(input_ids, attention_mask, strict=True)]


def _new_tokens(asked: dict[str, Any], prompt_width: int) -> int:
    if asked.get("max_new_tokens") is not None:
        return int(asked["max_new_tokens"])
    if asked.get("max_length") is not None:
        return int(asked["max_length"]) - prompt_width
    raise ConfigError(
        "generate: neither max_new_tokens nor max_length is set.", remedy="Pass max_new_tokens=256."
    )


def _sampling(asked: dict[str, Any], seed: int) -> Sampling:
    """Return the sampling of a configuration; without do_sample only the penalty has an effect."""
    penalty = asked.get("repetition_penalty")
    penalty = 1.0 if penalty is None else float(penalty)
    if not asked.get("do_sample"):
        return Sampling(repetition_penalty=penalty)
    # transformers' defaults where a configuration that samples says nothing.
    temperature, top_k, top_p = (asked.get(name) for name in ("temperature", "top_k", "top_p"))
    return Sampling(
        temperature=1.0 if temperature is None else float(temperature),
        seed=seed,
        top_k=50 if top_k is None else int(top_k),
        top_p=1.0 if top_p is None else float(top_p),
        repetition_penalty=penalty,
    )


def _padded(answers: Sequence[Sequence[int]], asked: dict[str, Any], like: Tensor) -> Tensor:
    """Pad the answers on the right: with the padding token, or else the first that ends a text."""
    pad = asked.get("pad_token_id")
    if pad is None:  # where nothing ends a text, all answers are of one length
        pad = next(iter(_ids(asked.get("eos_token_id"))), 0)
    width = max(len(answer) for answer in answers)
    return like.new_tensor([[*answer, *[pad] * (width - len(answer))] for answer in answers])


def _ids(value: int | Sequence[int] | Tensor | None) -> list[int]:
    value = value.tolist() if isinstance(value, Tensor) else value
    return [] if value is None else [value] if isinstance(value, int) else list(value)
