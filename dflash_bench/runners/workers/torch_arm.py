"""A torch target and what drafts for it: loading, quantizing, timing, one request at a time.

Every kind of arm answers with its tokens, when each pass of the target was done, and one entry per pass:
`[drafted, kept, committed]`, drafts verified, drafts the rule kept (None: not told), tokens added to the text.
"""

import time
from importlib import import_module
from typing import Any

from .installed import Refused, installed

Passes = list[list[int | None]]
Told = tuple[list[int], list[float], Passes]


class Arm:
    """A target, and what drafts for it."""

    first_pass = "prefill"

    def __init__(self, settings: dict[str, Any], options: dict[str, Any]) -> None:
        self.torch = import_module("torch")
        self.settings, self.options = settings, options
        self.target = self.loaded(settings["target"])
        if settings["quantization"] is not None:
            quantize(self.target, settings["quantization"])
        self.block_size: int | None = None
        self.prepare()

    def prepare(self) -> None:
        """Load what this kind needs beside the target."""

    @property
    def facts(self) -> dict[str, Any]:
        """What was resolved."""
        return {
            "device": str(self.target.device),
            "block_size": self.block_size,
            "first_pass": self.first_pass,
            "config": {
                "loop": type(self).__doc__,
                "attention": self.target.config._attn_implementation,
                "threads": self.torch.get_num_threads(),
                **self.options,
            },
        }

    def loaded(self, folder: str) -> Any:
        """Load a model's folder in the dtype that was asked for; code that lies there is never run.

        What its `generation_config.json` prefers (top_k, a repetition penalty) is not heeded: the request says all.
        """
        transformers = import_module("transformers")
        model = self.placed(transformers.AutoModelForCausalLM, folder)
        model.generation_config = transformers.GenerationConfig()
        return model

    def placed(self, model_class: Any, folder: str) -> Any:
        """Load `folder` by `model_class`."""
        dtype = getattr(self.torch, self.settings["dtype"])
        told = {"dtype": dtype, "local_files_only": True}
        return model_class.from_pretrained(folder, **told).to(self.settings["device"]).eval()

    def generate(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request."""
        torch = self.torch
        torch.manual_seed(request["seed"])
        cuda = self.target.device.type == "cuda"
        if cuda:
            torch.cuda.reset_peak_memory_stats(self.target.device)
        prompt = torch.tensor([request["prompt"]], device=self.target.device)
        cpu = time.process_time()
        with torch.inference_mode():
            began = time.perf_counter()
            tokens, times, passes = self.answer(prompt, request)
        return {
            "tokens": tokens,
            "sizes": [committed for _, _, committed in passes],
            "at_s": [at - began for at in times],
            "passes": passes,
            "cpu_s": time.process_time() - cpu,
            "peak_memory_bytes": torch.cuda.max_memory_allocated(self.target.device)
            if cuda
            else None,
        }

    def answer(self, prompt: Any, request: dict[str, Any]) -> Told:
        """Return the tokens, when each pass was done, and the passes."""
        raise NotImplementedError


def quantize(model: Any, name: str) -> None:
    """Round the weights of the target's linear layers to 8 or 4 bits by torchao, symmetric.

    int8 has one scale an output channel, int4 one a group of 64, in torchao's portable layout, which keeps each 4-bit
    value in a byte: its rounding is real, its memory is that of int8.
    """
    if installed("torchao")["torchao"] is None:
        raise Refused(f"target_quantization {name} needs torchao, which is not installed.")
    torchao, torch = import_module("torchao.quantization"), import_module("torch")
    if name == "int8":
        how = torchao.Int8WeightOnlyConfig()
    else:
        how = torchao.IntxWeightOnlyConfig(torch.int4, granularity=torchao.PerGroup(64))
    torchao.quantize_(model, how)
