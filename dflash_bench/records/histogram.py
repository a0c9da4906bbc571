"""Steps counted by how many accepted at least 1, 2, ... drafts, and by how many accepted exactly 0, 1, ..."""

from collections.abc import Sequence
from itertools import pairwise


def histogram_of(per_position: Sequence[int], steps: int) -> tuple[int, ...]:
    """Return how many of `steps` accepted exactly 0, 1, ..., k drafts, from how many accepted at least 1, ..., k."""
    at_least = [steps, *per_position, 0]
    return tuple(more - fewer for more, fewer in pairwise(at_least))
