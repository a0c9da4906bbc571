"""How each drafter of the lab was made, in the words of its card; the figures are the trainers' own constants."""

from __future__ import annotations

from typing import NamedTuple

from dflash_bench.lab import dflash, draft_model, eagle3, gaussian, medusa, windows


class Recipe(NamedTuple):
    """What a drafter is and how it was trained.

    step        of what one training step consists
    arithmetic  the precision of the training
    """

    title: str
    description: str
    start: str
    step: str
    learning_rate: float
    seed: int
    arithmetic: str = "fp32"


RECIPES = {
    "dflash": Recipe(
        title="the DFlash drafter of the lab target",
        description=f"""\
Two layers of the target's width, block {dflash.BLOCK_SIZE}, the anchor counted; reads the outputs of the target's
layers {", ".join(map(str, dflash.TAPS))} (counted from 0); z-lab's checkpoint format.""",
        start=f"layers {' and '.join(map(str, dflash.COPIED_LAYERS))} and the final norm of the target",
        step=f"{dflash.BATCH_SIZE} sequences, {dflash.NUM_ANCHORS} anchors each",
        learning_rate=dflash.LEARNING_RATE,
        seed=dflash.SEED,
    ),
    "eagle3": Recipe(
        title="the EAGLE-3 drafter of the lab target",
        description=f"""\
One layer of the target's width on the usual three taps (the inputs of layers 2, n/2 and n-3), drafting
from the {eagle3.DRAFT_VOCAB_SIZE} tokens that the target says most often (`d2t`, `t2d`); SafeAILab's
checkpoint format.""",
        start=f"most of layer {eagle3.COPIED_LAYER}, the final norm and the output rows of the target",
        step=f"{eagle3.BATCH_SIZE} sequences, {eagle3.TEST_STEPS} tokens drafted from each position",
        learning_rate=eagle3.LEARNING_RATE,
        seed=eagle3.SEED,
    ),
    "medusa": Recipe(
        title="the Medusa-1 heads of the lab target",
        description=f"""\
{medusa.NUM_HEADS} heads of {medusa.NUM_LAYERS} residual layer each on the target's final normed hidden
state; the target itself is unchanged. Medusa's own checkpoint format: a pickle, to be read with
`weights_only=True`.""",
        start="the target's output head",
        step=f"{medusa.BATCH_SIZE:,} positions",
        learning_rate=medusa.LEARNING_RATE,
        seed=medusa.SEED,
    ),
    "draft-model": Recipe(
        title="the draft model of the lab target",
        description=f"""\
A Qwen3 of its own, {draft_model.LAYERS} layers of width {draft_model.HIDDEN_SIZE}, with the target's tokenizer.""",
        start="random",
        step=f"{windows.SHORT_ROWS} windows of {windows.SHORT} tokens, {windows.LONG_SHARE:.0%} of them of"
        f" {windows.LONG_ROWS} of {windows.LONG:,}",
        learning_rate=draft_model.LEARNING_RATE,
        seed=draft_model.SEED,
        arithmetic="bf16 autocast",
    ),
    "gaussian": Recipe(
        title="a drafter that starts from Gaussian noise",
        description=f"""\
DFlash's network with slots that start as noise in embedding space and are denoised in steps, as some
articles describe DFlash; published DFlash checkpoints start from masks. Block {gaussian.BLOCK_SIZE},
z-lab's format with `"noise": "gaussian"` in its `dflash_config`.""",
        start=f"layers {' and '.join(map(str, dflash.COPIED_LAYERS))} and the final norm of the target",
        step=f"{dflash.BATCH_SIZE} sequences, {gaussian.NUM_ANCHORS} anchors each",
        learning_rate=gaussian.LEARNING_RATE,
        seed=gaussian.SEED,
    ),
}
