"""Medusa checkpoints: loading heads, saving them as Medusa's own code does, building the drafter."""

import json
from pathlib import Path

import torch

from dflash_bench.engine.hub import local_folder
from dflash_bench.engine.methods.checkpoint import CONFIG, Fits, check_tensors
from dflash_bench.engine.methods.medusa import CHOICES, MedusaDrafter, tree_of
from dflash_bench.engine.methods.medusa_layouts import PICKLE as PICKLE
from dflash_bench.engine.methods.medusa_layouts import read_heads
from dflash_bench.engine.methods.medusa_model import MedusaConfig, MedusaHeads
from dflash_bench.engine.registry import Loaded, Settings
from dflash_bench.engine.target import Target
from dflash_bench.errors import ConfigError


def load(
    folder: Path, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> MedusaHeads:
    """Read a checkpoint folder into heads ready to draft, cast to `dtype`.

    Raises ConfigError if the folder holds no Medusa heads, or some that would be misread.
    """
    config, tensors, token_map = read_heads(folder)
    with torch.device("meta"):  # shapes only: the weights come from the file
        heads = MedusaHeads(config)
    check_tensors({name: p.shape for name, p in heads.state_dict().items()}, tensors, folder)
    heads.load_state_dict(tensors, assign=True)
    heads.token_map = token_map
    return heads.to(device=device, dtype=dtype).eval().requires_grad_(False)


def save(heads: MedusaHeads, folder: Path, target_name: str) -> None:
    """Write `heads` in Medusa's own layout, in the dtype that they have, for the target of that name."""
    config = heads.config
    folder.mkdir(parents=True, exist_ok=True)
    fields = {
        "base_model_name_or_path": target_name,
        "medusa_num_heads": config.num_heads,
        "medusa_num_layers": config.num_layers,
        "hidden_size": config.hidden_size,
        "vocab_size": config.vocab_size,
    }
    (folder / CONFIG).write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
    tensors = {name: tensor.detach().cpu() for name, tensor in heads.state_dict().items()}
    torch.save(tensors, folder / PICKLE)


def check_fit(config: MedusaConfig, target: Fits) -> None:
    """Raise ConfigError unless the heads have the target's hidden and vocabulary sizes."""
    pairs = (
        ("hidden_size", config.hidden_size, target.hidden_size),
        ("vocab_size", config.vocab_size, target.vocab_size),
    )
    wrong = [f"{name} {mine} expected, {its} found" for name, mine, its in pairs if mine != its]
    if wrong:
        raise ConfigError(
            f"The Medusa heads do not fit their target: {'; '.join(wrong)}.",
            remedy="Use the heads that were trained for this target.",
        )


def build(target: Target, settings: Settings, loaded: Loaded) -> MedusaDrafter:
    """Build the drafter from the settings `draft`, `block_size` and `tree`.

    Without a block size: all heads in a chain, or the whole published tree. Raises ConfigError for heads
    that do not fit, and a block of more nodes than there are to draft.
    """
    draft, asked, tree = (settings.get(key) for key in ("draft", "block_size", "tree"))
    if not isinstance(draft, str | Path):
        raise ConfigError(
            f"Method 'medusa' needs heads, but draft is {draft!r}.",
            remedy="Set draft: to a folder or hub id.",
        )
    folder = local_folder(draft)
    if ("medusa", folder) not in loaded:
        loaded["medusa", folder] = load(folder, dtype=target.dtype, device=target.device)
    heads: MedusaHeads = loaded["medusa", folder]
    config = heads.config
    check_fit(config, target)
    nodes = _nodes(tree, config)
    most = 1 + (config.num_heads if tree is None else len(nodes))
    block_size = most if asked is None else asked
    if type(block_size) is not int or not 2 <= block_size <= most:
        has = f"{config.num_heads} heads" + ("" if tree is None else f" and a tree of {most} nodes")
        raise ConfigError(
            f"block_size is {block_size!r}, but {folder} has {has}.",
            remedy=f"Choose from 2 to {most}; a block size counts the anchor token.",
        )
    return MedusaDrafter(heads, target, block_size, nodes)


def _nodes(tree: object, config: MedusaConfig) -> tuple[tuple[int, ...], ...]:
    """Return the nodes of the tree that the setting `tree` asks for; none for a chain."""
    if tree is None:
        return ()
    if not isinstance(tree, dict):
        raise ConfigError(f"tree is {tree!r}.", remedy="Write tree: {top_k: 4, depth: 3}.")
    limits = {
        "depth": min(max(map(len, CHOICES)), config.num_heads),
        "top_k": min(max(map(max, CHOICES)) + 1, config.draft_vocab_size or config.vocab_size),
    }
    if unknown := sorted(tree.keys() - limits.keys(), key=str):
        raise ConfigError(f"tree: there is no {unknown[0]}.", remedy="It has depth and top_k.")
    for key, most in limits.items():
        told = tree.get(key)
        if told is None:
            continue
        if type(told) is not int or not 1 <= told <= most:
            raise ConfigError(
                f"tree: {key} is {told!r}.",
                remedy=f"Choose from 1 to {most}, what these heads and the published tree have.",
            )
        limits[key] = told
    return tree_of(limits["depth"], limits["top_k"])
