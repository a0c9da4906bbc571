"""Hugging Face transformers: `generate`, its assisted generation, its DFlash; and the authors' own loop.

`draft_model` and `ngram` draft before the prompt was read: their first pass is prefill and step in one ("both").
"""

from importlib import import_module
from pathlib import Path
from typing import Any

from .dflash_upstream import Upstream
from .installed import Refused as Refused
from .installed import installed
from .native_drafter import NATIVE, assistant_of
from .torch_arm import Arm, Told
from .watched import Recorded, Streamer, Watched


def versions() -> dict[str, str | None]:
    """Return the versions of what this drives; None is not installed."""
    return installed("torch", "transformers", "dflash", "torchao")


def load(settings: dict[str, Any]) -> Arm:
    """Load the target, and what the arm drafts with."""
    import_module("torch").set_num_threads(settings["threads"])
    options = dict(settings["options"])
    upstream = options.pop("implementation", "native") == "upstream" or bool(settings["matched"])
    kinds = {"ar": Generate, "draft_model": Assisted, "ngram": Lookup, "dflash": Native}
    kind: type[Arm] = Upstream if upstream else kinds[settings["method"]]
    return kind(settings, options)


class Generate(Arm):
    """`generate`: plain decoding."""

    def how(self) -> dict[str, Any]:
        """Return what makes `generate` draft."""
        return {}

    def answer(self, prompt: Any, request: dict[str, Any]) -> Told:
        """Call `generate`, watched."""
        streamer, watched = Streamer(), Watched(self.target, greedy=request["temperature"] == 0)
        sampling = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        if request["temperature"] > 0:
            sampling = {name: request[name] for name in ("temperature", "top_p", "top_k")}
            sampling["do_sample"] = True
        loops = import_module("transformers.generation.utils")
        sampled = Recorded(loops, "_speculative_sampling", lambda said: said[1])
        with watched, sampled:
            said = self.target.generate(
                prompt,
                attention_mask=self.torch.ones_like(prompt),
                max_new_tokens=request["max_new_tokens"],
                eos_token_id=self.settings["stop_ids"] or None,
                pad_token_id=0,
                streamer=streamer,
                **sampling,
                **self.how(),
                **self.options,
            )
        tokens = said[0, prompt.shape[1] :].tolist()
        sizes = streamer.sizes[1:]
        return tokens, streamer.times[1:], watched.passes(sizes, sampled)


class Assisted(Generate):
    """`generate(assistant_model=...)`: a smaller model drafts the same number of tokens each step."""

    first_pass = "both"

    def prepare(self) -> None:
        """Load the draft model. Its own default is to draft fewer where it is not sure, and more after success."""
        self.assistant = self.loaded(self.settings["draft"])
        self.block_size = self.settings["block_size"] or 6
        config = self.assistant.generation_config
        config.num_assistant_tokens = self.block_size - 1
        config.num_assistant_tokens_schedule = "constant"
        config.assistant_confidence_threshold = 0.0
        for name in list(self.options):
            if name.startswith(("num_assistant", "assistant_confidence")):
                setattr(config, name, self.options.pop(name))

    def how(self) -> dict[str, Any]:
        """Return what makes `generate` draft."""
        return {"assistant_model": self.assistant}


class Lookup(Generate):
    """`generate(prompt_lookup_num_tokens=...)`: what followed the last tokens when they stood in the text before."""

    first_pass = "both"

    def prepare(self) -> None:
        """Settle the lengths: transformers' own defaults are 10 drafts, and runs of 2 tokens at most."""
        self.block_size = self.settings["block_size"] or 11

    def how(self) -> dict[str, Any]:
        """Return what makes `generate` draft."""
        return {
            "prompt_lookup_num_tokens": (self.block_size or 0) - 1,
            "max_matching_ngram_size": self.settings["ngram_max"] or 2,
        }


class Native(Generate):
    """`generate(speculation_type="dflash")`: transformers' own DFlash."""

    def prepare(self) -> None:
        """Load the drafter into transformers' network."""
        try:
            module = import_module(NATIVE)
        except ImportError as error:
            raise Refused(
                f"this transformers has no DFlash of its own: {error}."
                " It came with 5.23; or set options: {implementation: upstream}."
            ) from error
        folder = Path(self.settings["draft"])
        self.assistant = assistant_of(module, folder, self.target.config)
        self.assistant.to(self.target.device, self.target.dtype).eval()
        self.block_size = self.settings["block_size"] or self.assistant.config.block_size
        self.assistant.config.block_size = self.block_size

    def how(self) -> dict[str, Any]:
        """Return what makes `generate` draft."""
        return {"assistant_model": self.assistant, "speculation_type": "dflash"}
