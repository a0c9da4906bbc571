"""What a model card states: held-out losses, how greedy outputs end, and each drafter's acceptance by family."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import Qwen3ForCausalLM

from dflash_bench.engine.registry import build
from dflash_bench.engine.target import Target
from dflash_bench.lab import outputs, tokenizer
from dflash_bench.lab.acceptance import Acceptance, measure
from dflash_bench.lab.corpus import mixture
from dflash_bench.lab.quality import Quality, quality
from dflash_bench.lab.target import held_out_losses

NUM_LOSS_ROWS = 100  # per family
NUM_PROMPTS = 24  # per family
# Per drafter's folder: the method that reads it, and the settings that are measured.
SETTINGS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "dflash": ("dflash", [{"block_size": 4}, {"block_size": 8}, {"block_size": 16}]),
    "eagle3": ("eagle3", [{"block_size": 4}, {"block_size": 8}, {"block_size": 32, "tree": {}}]),
    "medusa": ("medusa", [{"block_size": 5}, {"block_size": 32, "tree": {}}]),
    "draft-model": ("draft_model", [{"block_size": 4}, {"block_size": 8}]),
    "gaussian": ("dflash", [{"noise": "gaussian", "denoise_steps": n} for n in (1, 4)]),
}
Progress = Callable[[str], None]


class TargetMeasures(NamedTuple):
    """Steps trained (None: nothing tells), nats per answer token and greedy text quality by family."""

    steps: int | None
    losses: dict[str, float]
    quality: dict[str, Quality]


class DrafterMeasures(NamedTuple):
    """Steps trained and target outputs trained on (None: nothing tells), and acceptance on held-out prompts."""

    steps: int | None
    num_outputs: int | None
    acceptance: list[Acceptance]


def measure_target(out: Path, data_dir: Path | None, progress: Progress) -> TargetMeasures:
    """Measure the target in `out` as it is shipped."""
    tokens = tokenizer.load(out / "target")
    held_out = mixture.held_out_rows(NUM_LOSS_ROWS, data_dir)
    model = Qwen3ForCausalLM.from_pretrained(out / "target", dtype=torch.float32)
    losses = held_out_losses(model, tokens, held_out)
    progress(f"held-out losses: {losses}")
    target = Target.load(out / "target")
    greedy = reference(target, out, data_dir, 0.0, progress)
    return TargetMeasures(
        steps_of(out / "work" / "target.pt"), losses, quality(greedy, target.eos_ids)
    )


def measure_drafter(
    name: str, out: Path, data_dir: Path | None, progress: Progress
) -> DrafterMeasures:
    """Measure the drafter in folder `name` of `out` beside the target, both as they are shipped."""
    target = Target.load(out / "target")
    method, settings = SETTINGS[name]
    acceptance = []
    for temperature in outputs.TEMPERATURES:
        plain = reference(target, out, data_dir, temperature, progress)
        for setting in settings:
            drafter = build(method, target, {**setting, "draft": out / name})
            acceptance += measure(target, drafter, plain, label=label(setting, drafter.block_size))
            progress(f"{name}, {label(setting, drafter.block_size)}, T={temperature:g}: done")
    answers = out / "work" / "outputs.jsonl"
    return DrafterMeasures(
        steps=steps_of(out / "work" / f"{name}.pt"),
        num_outputs=len(outputs.read(answers)) if answers.is_file() else None,
        acceptance=acceptance,
    )


def reference(
    target: Target, out: Path, data_dir: Path | None, temperature: float, progress: Progress
) -> list[outputs.Output]:
    """Let the target answer the held-out prompts alone."""
    held_out = mixture.held_out_rows(NUM_PROMPTS, data_dir)
    prompts = [row for rows in held_out.values() for row in rows]
    tokens = tokenizer.load(out / "target")
    return outputs.answer(target, tokens, prompts, temperature, progress=progress)


def label(setting: dict[str, Any], block_size: int) -> str:
    """Name a setting in a table's head: `block 8`, `tree 32`, `block 16, 4 steps`."""
    shape = "tree" if "tree" in setting else "block"
    steps = setting.get("denoise_steps")
    return f"{shape} {block_size}" + (f", {steps} step{'s'[: steps > 1]}" if steps else "")


def steps_of(checkpoint: Path) -> int | None:
    """Return the number of steps that a training had taken; None without its checkpoint."""
    if not checkpoint.is_file():
        return None
    return int(torch.load(checkpoint, weights_only=True)["step"])


def write(measures: TargetMeasures | DrafterMeasures, path: Path) -> None:
    """Write the figures as JSON, the named tuples as objects."""
    path.write_text(json.dumps(_plain(measures), indent=1), encoding="utf-8")


def read_target(path: Path) -> TargetMeasures:
    """Read what `write` wrote of a target."""
    fields = json.loads(path.read_text(encoding="utf-8"))
    found = {family: Quality(**q) for family, q in fields["quality"].items()}
    return TargetMeasures(**{**fields, "quality": found})


def read_drafter(path: Path) -> DrafterMeasures:
    """Read what `write` wrote of a drafter."""
    fields = json.loads(path.read_text(encoding="utf-8"))
    return DrafterMeasures(
        **{**fields, "acceptance": [Acceptance(**a) for a in fields["acceptance"]]}
    )


def _plain(value: Any) -> Any:
    """Turn named tuples into objects; json would make lists of them."""
    if hasattr(value, "_asdict"):
        return {key: _plain(each) for key, each in value._asdict().items()}
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
