"""Build the shipped models, one stage after another: tokenizer, target, its outputs, then a drafter of each kind.

Fixed seeds and step budgets. A stage whose result is there is not done again, and a training that was
killed goes on from its last checkpoint; to build anew, name an empty folder. About two hours on one core.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from transformers import Qwen3ForCausalLM

from dflash_bench.engine.methods import dflash_checkpoint, eagle3_checkpoint, medusa_checkpoint
from dflash_bench.engine.target import Target
from dflash_bench.errors import ConfigError, did_you_mean
from dflash_bench.lab import (
    cards,
    dflash,
    draft_model,
    eagle3,
    gaussian,
    markov,
    measures,
    medusa,
    outputs,
    target,
    tokenizer,
)
from dflash_bench.lab.corpus import mixture

DRAFTERS = ("dflash", "eagle3", "medusa", "draft-model", "gaussian")
STAGES = ("tokenizer", "target", "outputs", *DRAFTERS, "markov", "cards")
Progress = Callable[[str], None]


def build(
    out: Path,
    stages: Sequence[str] = STAGES,
    data_dir: Path | None = None,
    threads: int = 1,
    progress: Progress = lambda line: print(line, file=sys.stderr, flush=True),
) -> None:
    """Run `stages`, in their fixed order, into `out`.

    `out` gets a folder for the target, each drafter and the two of `markov`, and `work/`, with checkpoints,
    outputs and measures. One thread is what the shipped models were built with: more change
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
            "dflash": build_dflash, "eagle3": build_eagle3, "medusa": build_medusa,
            "draft-model": build_draft_model, "gaussian": build_gaussian,
            "markov": build_markov, "cards": build_cards,
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
    """Train the DFlash drafter on the outputs and round it to bf16."""
    if missing(out, "dflash"):
        model = dflash.train(
            frozen(out), answers(out), mask_id(out), out / "work" / "dflash.pt", progress=progress
        )
        dflash_checkpoint.save(model.bfloat16(), model.config, out / "dflash")


def build_eagle3(out: Path, data_dir: Path | None, progress: Progress) -> None:
    """Train the EAGLE-3 drafter on the outputs and round it to bf16."""
    if missing(out, "eagle3"):
        checkpoint = out / "work" / "eagle3.pt"
        model = eagle3.train(frozen(out), answers(out), checkpoint, progress=progress)
        eagle3_checkpoint.save(model.bfloat16(), out / "eagle3")


def build_medusa(out: Path, data_dir: Path | None, progress: Progress) -> None:
    """Train the Medusa heads on the outputs and round them to bf16."""
    if missing(out, "medusa", medusa_checkpoint.PICKLE):
        checkpoint = out / "work" / "medusa.pt"
        heads = medusa.train(frozen(out), answers(out), checkpoint, progress=progress)
        medusa_checkpoint.save(heads.bfloat16(), out / "medusa", "lab")


def build_draft_model(out: Path, data_dir: Path | None, progress: Progress) -> None:
    """Train the draft model on the outputs, round it to bf16, and give it the target's tokenizer."""
    if missing(out, "draft-model"):
        checkpoint, tokens = out / "work" / "draft-model.pt", tokenizer.load(out / "target")
        model = draft_model.train(len(tokens), answers(out), checkpoint, progress=progress)
        target.save(model, tokens, out / "draft-model")


def build_gaussian(out: Path, data_dir: Path | None, progress: Progress) -> None:
    """Train the drafter that starts from Gaussian noise, and round it to bf16."""
    if missing(out, "gaussian"):
        model = gaussian.train(
            frozen(out), answers(out), mask_id(out), out / "work" / "gaussian.pt", progress=progress
        )
        dflash_checkpoint.save(model.bfloat16(), model.config, out / "gaussian")


def missing(out: Path, name: str, weights: str = "model.safetensors") -> bool:
    """Tell whether the drafter in folder `name` is still to be trained; the outputs must be there."""
    need(out / "work" / "outputs.jsonl", "outputs")
    return not (out / name / weights).is_file()


def frozen(out: Path) -> Qwen3ForCausalLM:
    """Load the rounded target to be read by a drafter's training."""
    return Qwen3ForCausalLM.from_pretrained(out / "target", dtype=torch.float32)


def answers(out: Path) -> list[outputs.Output]:
    """Read what the target answered."""
    return outputs.read(out / "work" / "outputs.jsonl")


def mask_id(out: Path) -> int:
    """Return the id of the mask token."""
    return tokenizer.special_id(tokenizer.load(out / "target"), tokenizer.MASK)


def build_markov(out: Path, data_dir: Path | None, progress: Progress) -> None:
    """Write the known-answer pair."""
    markov.build(out / "markov-target", out / "markov-dflash")
    cards.write_markov(out)


def build_cards(out: Path, data_dir: Path | None, progress: Progress) -> None:
    """Measure every model on held-out prompts, and write a card into its folder."""
    for name in DRAFTERS:
        need(out / name / "config.json", name)
    path = out / "work" / "target.json"
    if not path.is_file():
        measures.write(measures.measure_target(out, data_dir, progress), path)
    write_card(out, "target", cards.target_card(measures.read_target(path)))
    for name in DRAFTERS:
        path = out / "work" / f"{name}.json"
        if not path.is_file():
            measures.write(measures.measure_drafter(name, out, data_dir, progress), path)
        write_card(out, name, cards.drafter_card(name, measures.read_drafter(path)))


def write_card(out: Path, name: str, text: str) -> None:
    """Write the card of the model in folder `name`."""
    (out / name / "README.md").write_text(text, encoding="utf-8")


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
    for name in ("target", *DRAFTERS, "markov-target", "markov-dflash"):
        shutil.copytree(out / name, package / name, dirs_exist_ok=True)
        for file in (package / name).iterdir():
            file.chmod(0o644)  # safetensors are written for their owner alone
