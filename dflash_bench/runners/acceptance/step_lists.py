"""Loops that list what each verify step committed: upstream's `dflash`, on Transformers and on MLX.

An entry is drafts accepted + 1. Four styles are about, told apart by where the prefill's token is, by a mark at the
end, and by whether the last step was cut to what was kept (dflash/model.py `acceptance_lengths`, dflash/model_mlx.py
`accepted`; version 0.1.0 of PyPI, and the snapshot 44947fb of April 2026):

    48 tokens, every draft of a block of 8 accepted
    transformers 0.1.0      [8, 8, 8, 8, 8, 7]              cut; sums to 47
    transformers snapshot   [8, 8, 8, 8, 8, 8]              not cut: sums to 48
    mlx 0.1.0               [None, 8, 8, 8, 8, 8, 7, None]  cut; the prefill first, the end last
    mlx snapshot            [1, 8, 8, 8, 8, 8, 8, 0]        not cut: 49; both marks would dilute a mean

0.1.0 verifies min(block size, tokens that remain + 1) rows, the snapshot always a whole block. Where a list was cut
already, what was dropped is not told, and `cut` is 0: these accepted drafts are the kept ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dflash_bench.errors import ConfigError
from dflash_bench.records.schema import Steps


@dataclass(frozen=True)
class Style:
    """How a loop writes its list. `prefill`: it begins with the prefill's token. `is_cut`: capped at what was kept."""

    name: str
    prefill: bool
    is_cut: bool


TRANSFORMERS = Style("dflash 0.1.0 on Transformers", prefill=False, is_cut=True)
TRANSFORMERS_SNAPSHOT = Style("dflash 44947fb on Transformers", prefill=False, is_cut=False)
MLX = Style("dflash 0.1.0 on MLX", prefill=True, is_cut=True)
MLX_SNAPSHOT = Style("dflash 44947fb on MLX", prefill=True, is_cut=False)


def of_list(
    committed: Sequence[int | None],
    style: Style,
    *,
    output_tokens: int,
    block_size: int,
    max_new_tokens: int,
) -> Steps:
    """Return the steps of one request of `output_tokens`, the prefill's and the one that ended it counted.

    `block_size` counts the anchor; 1 is plain decoding. Raises ConfigError if the list does not hold these tokens: the
    loop then is of another style or version, and its numbers would be read wrongly.
    """
    entries = committed[1:] if style.prefill else committed
    raw = [entry for entry in entries if entry]
    overshoot = 1 + sum(raw) - output_tokens
    if not raw and overshoot == 0:
        return Steps(drafted=(), accepted=(), committed=(), cut=())
    if not raw or overshoot < 0 or overshoot >= raw[-1] or (style.is_cut and overshoot > 0):
        raise ConfigError(
            f"{style.name}: its list of steps {list(committed)} does not make up the {output_tokens} output tokens.",
            remedy="Use a version of dflash that this runner names, or report the version that you have.",
        )
    kept = [*raw[:-1], raw[-1] - overshoot]
    drafted, done = [], 1
    for entry in kept:
        rows = min(block_size, max_new_tokens - done + 1) if style.is_cut else block_size
        drafted.append(rows - 1)
        done += entry
    return Steps(
        drafted=tuple(drafted),
        accepted=tuple(entry - 1 for entry in kept),
        committed=tuple(kept),
        cut=(*(0 for _ in kept[:-1]), overshoot),
    )
