"""What a model card states: held-out losses, how greedy outputs end, and acceptance by family."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from transformers import Qwen3ForCausalLM

from dflash_bench.engine.methods import dflash_checkpoint
from dflash_bench.engine.methods.dflash import DFlashDrafter
from dflash_bench.engine.target import Target
from dflash_bench.lab import outputs, tokenizer
from dflash_bench.lab.acceptance import Acceptance, measure
from dflash_bench.lab.corpus import mixture
from dflash_bench.lab.quality import Quality, quality
from dflash_bench.lab.target import held_out_losses

NUM_LOSS_ROWS = 100  # per family
NUM_PROMPTS = 24  # per family
BLOCK_SIZES = (4, 8, 16)
Progress = Callable[[str], None]


class Training(NamedTuple):
    """What was really done, told by what it left in `work/`; None where nothing is left that tells."""

    target_steps: int | None
    num_outputs: int | None
    dflash_steps: int | None


@dataclass(frozen=True)
class Measures:
    """Nats per answer token, greedy text quality, acceptance per (family, T, block), all on held-out rows."""

    training: Training
    losses: dict[str, float]
    quality: dict[str, Quality]
    acceptance: list[Acceptance]


def take(out: Path, data_dir: Path | None, progress: Progress) -> Measures:
    """Measure the target and the drafter in `out`, both as they are shipped."""
    tokens = tokenizer.load(out / "target")
    held_out = mixture.held_out_rows(NUM_LOSS_ROWS, data_dir)
    model = Qwen3ForCausalLM.from_pretrained(out / "target", dtype=torch.float32)
    losses = held_out_losses(model, tokens, held_out)
    progress(f"held-out losses: {losses}")

    target = Target.load(out / "target")
    drafter = dflash_checkpoint.load(out / "dflash")
    prompts = [row for rows in held_out.values() for row in rows[:NUM_PROMPTS]]
    references = [
        outputs.answer(target, tokens, prompts, temperature, progress=progress)
        for temperature in outputs.TEMPERATURES
    ]
    acceptance = []
    for reference in references:
        for block_size in BLOCK_SIZES:
            acceptance += measure(target, DFlashDrafter(drafter, target, block_size), reference)
            progress(
                f"acceptance at block {block_size}, temperature {reference[0].temperature:g}: done"
            )
    return Measures(
        training_done(out / "work"), losses, quality(references[0], target.eos_ids), acceptance
    )


def training_done(work: Path) -> Training:
    """Read the steps from the checkpoints and count the outputs."""
    answers = work / "outputs.jsonl"
    return Training(
        target_steps=steps_of(work / "target.pt"),
        num_outputs=len(outputs.read(answers)) if answers.is_file() else None,
        dflash_steps=steps_of(work / "dflash.pt"),
    )


def steps_of(checkpoint: Path) -> int | None:
    """Return the number of steps that a training had taken; None without its checkpoint."""
    if not checkpoint.is_file():
        return None
    return int(torch.load(checkpoint, weights_only=True)["step"])


def write(measures: Measures, path: Path) -> None:
    """Write the figures as JSON, the named tuples as objects."""
    fields = {
        "training": measures.training._asdict(),
        "losses": measures.losses,
        "quality": {family: q._asdict() for family, q in measures.quality.items()},
        "acceptance": [a._asdict() for a in measures.acceptance],
    }
    path.write_text(json.dumps(fields, indent=1), encoding="utf-8")


def read(path: Path) -> Measures:
    """Read what `write` wrote."""
    fields = json.loads(path.read_text(encoding="utf-8"))
    return Measures(
        training=Training(**fields["training"]),
        losses=fields["losses"],
        quality={family: Quality(**q) for family, q in fields["quality"].items()},
        acceptance=[Acceptance(**a) for a in fields["acceptance"]],
    )
