"""Windows and directions against their definition, one pair of query and key at a time."""

import pytest
import torch

from dflash_bench.engine.methods.dflash_attention import LayerAttention, visible
from tests.unit.engine.methods.tiny_dflash import seen_by_definition


@pytest.mark.parametrize("window", [None, 1, 2, 5, 100])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [1, 4])
def test_who_sees_whom_is_as_defined(window: int | None, causal: bool, width: int) -> None:
    attention, starts = LayerAttention(window, causal), [0, 3, 9]
    positions = torch.tensor(starts)[:, None] + torch.arange(width)
    view_length = max(starts) + width
    found = visible(attention, positions, view_length)
    assert found.shape == (len(starts), width, view_length)
    for row, start in enumerate(starts):
        assert torch.equal(
            found[row, :, : start + width], seen_by_definition(attention, start, width)
        )
        assert not found[row, :, start + width :].any()  # beyond its block lies nothing of a row's


def test_everyone_sees_itself() -> None:
    positions = torch.tensor([[5, 6, 7]])
    for attention in (LayerAttention(1), LayerAttention(1, causal=True), LayerAttention()):
        found = visible(attention, positions, 8)
        assert found[0, [0, 1, 2], [5, 6, 7]].all()
