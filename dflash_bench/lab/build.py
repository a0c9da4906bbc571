"""Build the shipped models: tokenizer -> target -> outputs -> dflash -> markov -> cards, one stage after another.

Fixed seeds and step budgets. A stage whose result is there is not done again, and a training that was
killed goes on from its last checkpoint; to build anew, name an empty folder. About an hour and a quarter
on one core.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from transformers import Qwen3ForCausalLM

from dflash_bench.engine.methods.dflash_checkpoint import save as save_drafter
from dflash_bench.engine.target import Target
from dflash_bench.errors import ConfigError, did_you_mean
from dflash_bench.lab import cards, dflash, markov, measures, outputs, target, tokenizer
from dflash_bench.lab.corpus import mixture

STAGES = ("tokenizer", "target", "outputs", "dflash", "markov", "cards")
Progress = Callable[[str], None]


def build(
    out: Path,
    stages: Sequence[str] = STAGES,
    data_dir: Path | None = None,
    threads: int = 1,
    progress: Progress = lambda line: print(line, file=sys.stderr, flush=True),
) -> None:
    """Run `stages`, in their fixed order, into `out`.

    `out` gets the model folders (`target`, `dflash`, `markov-target`, `markov-dflash`) and `work/`, with
    checkpoints, outputs and measures. One thread is what the shipped models were built with: more change
    the order of the sums, and on a shared machine they are slower. Raises ConfigError for an unknown stage,
    one whose predecessor has not run, or an `out` that is no folder.
    """
    for stage in stages:
        if stage not in STAGES:
            raise ConfigError(f"There is no stage '{stage}'.", remedy=did_you_mean(stage, STAGES))
    make_folder(out / "work")
    torch.set_num_threads(threads)
    for stage in sorted(stages, key=STAGES.index):
        progress(f"stage {stage}")
        {
            "tokenizer": build_tokenizer, "target": build_target, "outputs": build_outputs,
            "dflash": build_dflash, "markov": build_markov, "cards": build_cards,
        }[stage](out, data_dir, progress)  # fmt: skip


def build_tokenizer(out: Path, data_dir: Path | None, progress: Progress) -> None:
    """Learn the merges and write the tokenizer's files into the target's folder."""
    if not (out / "target" / "tokenizer.json").is_file():
        texts = tokenizer.sample_texts(mixture.train_rows(data_dir))
        tokenizer.save(tokenizer.train(texts), out / "target")


def build_target(out: Path, data_dir: Path | None, progress: Progress) -> None:
    """Train the target and round it to bf16."""
    folder = out / "target"
    need(folder / "tokenizer.json", "tokenizer")
    if not (folder / "model.safetensors").is_file():
        tokens = tokenizer.load(folder)
        rows = mixture.train_rows(data_dir)
        model = target.train(tokens, rows, out / "work" / "target.pt", progress=progress)
        target.save(model, tokens, folder)


def build_outputs(out: Path, data_dir: Path | None, progress: Progress) -> None:
    """Let the rounded target answer training prompts."""
    path = out / "work" / "outputs.jsonl"
    need(out / "target" / "model.safetensors", "target")
    if not path.is_file():
        rows = mixture.train_rows(data_dir)
        engine = Target.load(out / "target")
        tokens = tokenizer.load(out / "target")
        outputs.write(outputs.generate_outputs(engine, tokens, rows, progress=progress), path)


def build_dflash(out: Path, data_dir: Path | None, progress: Progress) -> None:
    """Train the drafter on the outputs and round it to bf16."""
    folder, data = out / "dflash", out / "work" / "outputs.jsonl"
    need(data, "outputs")
    if not (folder / "model.safetensors").is_file():
        frozen = Qwen3ForCausalLM.from_pretrained(out / "target", dtype=torch.float32)
        mask = tokenizer.special_id(tokenizer.load(out / "target"), tokenizer.MASK)
        model = dflash.train(
            frozen, outputs.read(data), mask, out / "work" / "dflash.pt", progress=progress
        )
        save_drafter(model.bfloat16(), model.config, folder)


def build_markov(out: Path, data_dir: Path | None, progress: Progress) -> None:
    """Write the known-answer pair."""
    markov.build(out / "markov-target", out / "markov-dflash")
    cards.write_markov(out)


def build_cards(out: Path, data_dir: Path | None, progress: Progress) -> None:
    """Measure the models on held-out prompts and write a card into every folder."""
    need(out / "dflash" / "model.safetensors", "dflash")
    path = out / "work" / "measures.json"
    if not path.is_file():
        measures.write(measures.take(out, data_dir, progress), path)
    cards.write(out, measures.read(path))


def need(path: Path, stage: str) -> None:
    """Raise ConfigError unless the result of an earlier stage is there."""
    if not path.is_file():
        raise ConfigError(f"{path} does not exist.", remedy=f"Run the stage '{stage}' first.")


def make_folder(folder: Path) -> None:
    """Make `folder`; raise ConfigError where that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{folder}: cannot be made: {error.strerror}.",
            remedy="Name a folder that can be written, with `-o FOLDER`.",
        ) from None


def publish(out: Path, package: Path) -> None:
    """Copy the finished model folders, and nothing of `work/`, to where the package ships them."""
    for name in ("target", "dflash", "markov-target", "markov-dflash"):
        shutil.copytree(out / name, package / name, dirs_exist_ok=True)
        for file in (package / name).iterdir():
            file.chmod(0o644)  # safetensors are written for their owner alone
