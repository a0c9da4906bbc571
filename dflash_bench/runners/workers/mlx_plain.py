"""mlx-lm's plain decoding, and what every MLX arm shares: loading, quantizing, timing, one request at a time.

Each arm's `passes` yields, as soon as a pass of the target is done, the tokens that it added to the text, the drafts
that it verified, and those of them that the rule kept (None: not told).
"""

import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

BITS = {"int8": 8, "int4": 4}

Passes = Iterator[tuple[list[int], int, int | None]]


class Plain:
    """mlx-lm's `stream_generate`, which computes the next token while this one is read: its fastest AR."""

    first_pass = "prefill"

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.mx = import_module("mlx.core")
        self.lm = import_module("mlx_lm.generate")
        self.options = dict(settings["options"])
        self.model, self.tokenizer = self.loaded(settings["target"], settings["quantization"])
        self.tokenizer.eos_token_ids = settings["stop_ids"]
        self.block_size: int | None = None
        self.prepare()

    def prepare(self) -> None:
        """Load what this kind needs beside the target."""

    @property
    def facts(self) -> dict[str, Any]:
        """What was resolved."""
        return {
            "device": str(self.mx.default_device()),
            "block_size": self.block_size,
            "first_pass": self.first_pass,
            "config": {"loop": type(self).__doc__, **self.options},
        }

    def loaded(self, folder: str, quantization: str | None = None) -> Any:
        """Return (model, tokenizer) of a folder, in the dtype that was asked for; code that lies there is never run."""
        model, tokenizer = import_module("mlx_lm").load(
            folder, tokenizer_config={"trust_remote_code": False}
        )
        model.set_dtype(getattr(self.mx, self.settings["dtype"]))
        if quantization is not None:
            import_module("mlx.nn").quantize(model, group_size=64, bits=BITS[quantization])
            self.mx.eval(model.parameters())
        return model, tokenizer

    def generate(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request."""
        self.mx.random.seed(request["seed"])
        self.mx.reset_peak_memory()
        prompt = self.mx.array(request["prompt"])
        sizes: list[int] = []
        at_s: list[float] = []
        tokens: list[int] = []
        passes: list[list[int | None]] = []
        cpu = time.process_time()
        began = time.perf_counter()
        for chunk, drafted, kept in self.passes(prompt, request):
            if chunk:
                at_s.append(time.perf_counter() - began)
                sizes.append(len(chunk))
                tokens += chunk
                passes.append([drafted, kept, len(chunk)])
        return {
            "tokens": tokens,
            "sizes": sizes,
            "at_s": at_s,
            "passes": passes,
            "cpu_s": time.process_time() - cpu,
            "peak_memory_bytes": self.mx.get_peak_memory(),
        }

    def sampler(self, request: dict[str, Any]) -> Any:
        """Return the authors' sampler, which takes `top_p` and `top_k` as they do; None is greedy."""
        if request["temperature"] == 0:
            return None
        return import_module("dflash.model_mlx").make_sampler(
            request["temperature"], request["top_p"], request["top_k"]
        )

    def passes(self, prompt: Any, request: dict[str, Any]) -> Passes:
        """Yield (tokens committed, drafts verified, drafts kept) of each pass as it is done."""
        for said in self.lm.stream_generate(
            self.model,
            self.tokenizer,
            prompt,
            request["max_new_tokens"],
            sampler=self.sampler(request),
            **self.options,
        ):
            yield [int(said.token)], 0, 0
