"""Standard speculation: a smaller model of the same tokenizer writes ahead (arXiv:2211.17192, 2302.01318).

The draft model is a target of its own, with a cache of its own, which is asked one token at a time:

    committed   .. x y | pending          y at position n-1
    forward 1   [y, pending]              at n-1, n: what follows is d1
    forward 2   [d1]                      at n+1:    d2, and so on to dK-1

Each forward leaves the keys and values of what it was fed, so those of accepted drafts are in the cache
already. Only the last draft is never fed; if it is accepted it stands at the next n-1. So every
block begins one token early: that fills the gap where there is one, and changes nothing elsewhere, and
rows need not be told apart.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from dflash_bench.engine.draft import Anchors, Draft
from dflash_bench.engine.hub import local_folder
from dflash_bench.engine.methods.base import Committed
from dflash_bench.engine.methods.checkpoint import read_json
from dflash_bench.engine.registry import Loaded, Settings
from dflash_bench.engine.target import Target
from dflash_bench.errors import ConfigError

BLOCK_SIZE = 6
TOKENIZER = "tokenizer.json"


class DraftModelDrafter:
    """A causal LM that drafts for another."""

    name = "draft_model"
    taps: tuple[int, ...] = ()

    def __init__(self, model: Target, vocab_size: int, block_size: int = BLOCK_SIZE) -> None:
        """Draft block_size - 1 tokens with `model`, for a target of `vocab_size` tokens."""
        self.block_size = block_size
        self._model = model
        self._vocab_size = vocab_size
        self._before = self._pending = torch.empty(0, dtype=torch.int64)

    def reserve(self, rows: int, max_length: int) -> None:
        """Make room in the draft model's cache; raises ConfigError if it has too few positions."""
        longest = max_length - self.block_size  # a block may reach beyond the end of a text
        if longest > self._model.max_positions:
            raise ConfigError(
                f"The requests need {longest} positions, but the draft model has {self._model.max_positions}.",
                remedy="Shorten the prompts or context_length, lower max_new_tokens, or use another draft model.",
            )
        self._model.reserve(rows, max_length)
        self._before = torch.zeros(rows, dtype=torch.int64, device=self._model.device)

    def admit(self, row: int, tokens: Sequence[int], features: Tensor) -> None:
        """Read the prompt, all of `tokens` but the last."""
        known = self._model.vocab_size - 1
        self._model.prefill(row, [min(token, known) for token in tokens[:-1]])
        self._before[row] = tokens[-2]

    @torch.inference_mode()
    def draft_block(self, anchors: Anchors) -> Draft:
        """Write K-1 tokens behind every anchor, each given those before it: drafts [A, K-1]."""
        self._pending = anchors.pending
        before = self._before[: len(anchors.pending)]
        fed, lengths = torch.stack((before, anchors.pending), 1), [n - 1 for n in anchors.lengths]
        tokens, probs = [], []
        for first in range(1, self.block_size):
            # A token beyond the draft model's vocabulary is a filler to the target: any will do.
            fed = fed.clamp(max=self._model.vocab_size - 1)
            logits = self._model.verify_block(fed, lengths).logits[:, -1:]
            lengths = [n + fed.shape[1] for n in lengths]
            fed, law = anchors.propose(self._as_targets(logits), first)
            tokens.append(fed)
            probs += [] if law is None else [law]
        return Draft(torch.cat(tokens, 1), probs=torch.cat(probs, 1) if probs else None)

    def commit(self, committed: Committed) -> None:
        """Remember each row's last token before its new anchor; where one came, it is the old anchor."""
        text = torch.cat((self._pending[:, None], committed.padded()), 1)  # [A, 1+L]
        ends = torch.tensor(committed.counts, device=text.device)  # where the new anchors are
        self._before[: len(text)] = text.gather(1, ends[:, None] - 1)[:, 0]

    def move_row(self, source: int, destination: int) -> None:
        """Let the sequence of row `source` live in row `destination` from now on."""
        self._model.move_row(source, destination)
        self._before[destination] = self._before[source]

    def _as_targets(self, logits: Tensor) -> Tensor:
        """Bring logits [A, 1, V'] to the target's vocabulary; what only it has is never drafted."""
        missing = self._vocab_size - logits.shape[-1]
        return F.pad(logits, (0, missing), value=-torch.inf)  # a negative pad cuts


def build(target: Target, settings: Settings, loaded: Loaded) -> DraftModelDrafter:
    """Build the drafter from the settings `draft` and `block_size`; raises ConfigError for a misfit."""
    draft, asked = settings.get("draft"), settings.get("block_size")
    if not isinstance(draft, str | Path):
        raise ConfigError(
            f"Method 'draft_model' needs a model, but draft is {draft!r}.",
            remedy="Set draft: to a folder or hub id.",
        )
    block_size = BLOCK_SIZE if asked is None else asked
    if type(block_size) is not int or block_size < 2:
        raise ConfigError(
            f"block_size is {block_size!r}.", remedy="It must be an integer of at least 2."
        )
    folder = local_folder(draft)
    if ("draft_model", folder) not in loaded:
        loaded["draft_model", folder] = Target.load(folder, target.dtype, target.device).network
    model = Target(loaded["draft_model", folder])  # the weights are shared, the cache is its own
    # A network that was not made of a folder has no name that is one.
    name = getattr(getattr(target.network, "model", None), "name_or_path", "")
    check_fit(model.vocab_size, folder, target.vocab_size, Path(name) if name else None)
    return DraftModelDrafter(model, target.vocab_size, block_size)


def check_fit(
    vocab_size: int, folder: Path, target_vocab_size: int, target_folder: Path | None
) -> None:
    """Refuse a draft model in `folder` whose token ids mean something else than the target's.

    Where both folders have a `tokenizer.json`, an id that both know has to be the same token in both.
    Vocabulary sizes may differ by padding: rows of the embedding that no tokenizer has a token for.
    """
    mine, theirs = _vocabulary(folder), _vocabulary(target_folder) if target_folder else {}
    for token_id in sorted(mine.keys() & theirs.keys()):
        if mine[token_id] != theirs[token_id]:
            raise ConfigError(
                f"{folder}: token {token_id} is {mine[token_id]!r}, but {theirs[token_id]!r} in the target's"
                f" {target_folder}.",
                remedy="Use a draft model of the target's own family, with the same tokenizer.",
            )
    sizes = sorted((vocab_size, target_vocab_size))
    if sizes[0] == sizes[1]:
        return
    used = max([*mine, *theirs], default=sizes[1]) + 1
    if used > sizes[0]:
        said = "no tokenizer.json says that the difference is padding"
        raise ConfigError(
            f"{folder}: vocab_size is {vocab_size}, the target's is {target_vocab_size}, and"
            f" {f'tokens up to {used - 1} are in use' if mine or theirs else said}.",
            remedy="Use a draft model of the target's own family, with its tokenizer.json beside it.",
        )


def _vocabulary(folder: Path) -> dict[int, str]:
    """Return the tokens of a folder's `tokenizer.json` by id; none if it has no such file."""
    if not (folder / TOKENIZER).is_file():
        return {}
    raw = read_json(folder / TOKENIZER)
    try:
        vocab = raw.get("model", {}).get(
            "vocab", {}
        )  # of Unigram: a list of pairs, their index the id
        pairs = (
            vocab.items() if isinstance(vocab, dict) else ((t[0], i) for i, t in enumerate(vocab))
        )
        tokens = {int(token_id): str(token) for token, token_id in pairs}
        added = {int(each["id"]): str(each["content"]) for each in raw.get("added_tokens", [])}
    except (AttributeError, LookupError, TypeError, ValueError):
        raise ConfigError(
            f"{folder / TOKENIZER} is no tokenizer's: model.vocab or added_tokens cannot be read.",
            remedy="Download the model again.",
        ) from None
    return tokens | added
