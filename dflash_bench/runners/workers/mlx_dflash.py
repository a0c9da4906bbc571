"""The authors' DFlash loop on MLX, `dflash.model_mlx` 0.1.0, and plain decoding as that loop would do it.

- The loop tells a step's tokens after their cut at EOS or the limit. What the rule kept before the cut stands in the
  generator's own variable `accepted` at each yield. It narrows the last blocks to what remains of the limit.
- `load_draft` asks the hub even for a folder, and wants `max_position_embeddings`, which may be left to the target.
"""

import json
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from .mlx_plain import Passes, Plain


class DFlash(Plain):
    """The authors' `dflash.model_mlx.stream_generate`."""

    def prepare(self) -> None:
        """Load the drafter; this loop has no setting beside the block."""
        self.dflash: Any = import_module("dflash.model_mlx")
        self.draft = self.drafter(self.settings["draft"])
        self.block_size = self.settings["block_size"] or int(self.draft.config.block_size)

    def drafter(self, folder: str) -> Any:
        """Load a drafter's folder without asking the hub."""
        config = json.loads(Path(folder, "config.json").read_text(encoding="utf-8"))
        longest = self.model.args.max_position_embeddings
        with tempfile.TemporaryDirectory() as place:
            for weights in Path(folder).resolve().glob("*.safetensors"):
                Path(place, weights.name).symlink_to(weights)
            whole = {"max_position_embeddings": longest, **config}
            Path(place, "config.json").write_text(json.dumps(whole), encoding="utf-8")
            self.dflash.snapshot_download = lambda *_, **__: place
            draft = self.dflash.load_draft(folder)
        draft.set_dtype(getattr(self.mx, self.settings["dtype"]))
        return draft

    def passes(self, prompt: Any, request: dict[str, Any]) -> Passes:
        """Yield the prefill's token, then each step's; the last yield of the loop has none."""
        limit, done = request["max_new_tokens"], 0
        stream = self.dflash.stream_generate(
            self.model,
            self.draft,
            self.tokenizer,
            prompt,
            block_size=self.block_size,
            max_tokens=limit,
            temperature=request["temperature"],
            top_p=request["top_p"],
            top_k=request["top_k"],
            **self.options,
        )
        for said in stream:
            if said.accepted is None:
                yield said.tokens, 0, 0
            else:
                drafted = min(self.block_size or 0, limit - done + 1) - 1
                yield said.tokens, drafted, _variable(stream, "accepted")
            done += len(said.tokens)


class Matched(DFlash):
    """Plain decoding as the DFlash loop would do it: its prefill, its taps, and one pass at a time, none in advance.

    Its own loop cannot: at block size 1 it stops after the prefill.
    """

    def prepare(self) -> None:
        """Tap the layers that the drafter reads."""
        super().prepare()
        self.block_size = None
        self.dflash._patch_model(self.model, self.draft.config.target_layer_ids)

    def passes(self, prompt: Any, request: dict[str, Any]) -> Passes:
        """Yield one token a pass, read before the next pass begins."""
        mx, model, stream = self.mx, self.model, self.lm.generation_stream
        sampler = self.dflash.make_sampler(
            request["temperature"], request["top_p"], request["top_k"]
        )
        ends = set(self.settings["stop_ids"])
        cache = import_module("mlx_lm.models.cache").make_prompt_cache(model)
        with self.lm.wired_limit(model, [stream]):
            with mx.stream(stream):
                logits, hidden, _ = self.dflash._prefill_target(model, prompt, cache, None, 2048)
            token: int | None = None
            for _ in range(request["max_new_tokens"]):
                if token is not None:
                    with mx.stream(stream):
                        logits = model(mx.array([[token]]), cache)
                        hidden = mx.concatenate(model._hidden_states, axis=-1)
                mx.eval(logits, hidden)
                token = int(sampler(logits[:, -1:])[0, 0].item())
                yield [token], 0, 0
                if token in ends:
                    return


def _variable(stream: Any, name: str) -> int | None:
    """Return a variable of the loop that `stream` delegates to; None where there is none of that name."""
    inner = stream.gi_yieldfrom
    value = inner.gi_frame.f_locals.get(name) if inner is not None else None
    return None if value is None else int(value)
