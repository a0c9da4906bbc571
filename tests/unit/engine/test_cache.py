"""Keys and values with a length of their own per row."""

import torch
from torch import Tensor

from dflash_bench.engine.cache import CacheShape, KVCache

SHAPE = CacheShape(
    num_layers=2, kv_heads=2, head_dim=3, dtype=torch.float32, device=torch.device("cpu")
)


def block(rows: int, width: int, value: float) -> Tensor:
    """Return keys [rows, 2, width, 3] in which every number names its row and slot."""
    index = torch.arange(rows * width, dtype=torch.float32).view(rows, 1, width, 1)
    return (value + index).expand(rows, 2, width, 3)


def test_slots_are_positions_of_each_row() -> None:
    cache = KVCache(SHAPE)
    cache.reserve(3, 8)
    positions = torch.tensor([[1, 2], [4, 5]])
    keys, values = cache.at(1, positions, view_length=6).update(
        block(2, 2, 10.0), block(2, 2, 20.0), 1
    )
    assert keys.shape == values.shape == (2, 2, 6, 3)
    assert keys[:, 0, :, 0].tolist() == [[0, 10, 11, 0, 0, 0], [0, 0, 0, 0, 12, 13]]
    assert values[:, 1, :, 2].tolist() == [[0, 20, 21, 0, 0, 0], [0, 0, 0, 0, 22, 23]]


def test_rows_and_layers_that_were_not_addressed_are_untouched() -> None:
    cache = KVCache(SHAPE)
    cache.reserve(3, 8)
    cache.at(1, torch.tensor([[0]]), 1).update(block(1, 1, 5.0), block(1, 1, 6.0), 1)
    assert not cache.read(0, slice(0, 3), 8)[0].any()
    assert cache.read(1, slice(0, 3), 8)[0].count_nonzero() == 2 * 3


def test_a_moved_row_is_whole() -> None:
    cache = KVCache(SHAPE)
    cache.reserve(2, 4)
    for layer in range(2):
        cache.at(1, torch.arange(4)[None], 4).update(block(1, 4, 1.0), block(1, 4, 9.0), layer)
    cache.move_row(1, 0)
    for layer in range(2):
        for stored in cache.read(layer, slice(0, 2), 4):
            assert stored.any()
            assert torch.equal(stored[0], stored[1])


def test_slots_are_moved_within_their_own_rows() -> None:
    cache = KVCache(SHAPE)
    cache.reserve(3, 8)
    slots = torch.arange(8).expand(2, -1)
    for layer in range(2):
        cache.at(0, slots, 8).update(block(2, 8, 1.0), block(2, 8, 50.0), layer)
    cache.move_slots(torch.tensor([[2, 4, 7], [1, 6, 6]]), torch.tensor([[2, 3, 4], [1, 2, 3]]))
    for layer in range(2):
        keys, values = cache.read(layer, slice(0, 3), 8)
        # Slot 4 of the first row is read before slot 7 takes its place.
        first, second = [1, 2, 3, 5, 8, 6, 7, 8], [9, 10, 15, 15, 13, 14, 15, 16]
        assert keys[:, 1, :, 2].tolist() == [first, second, [0] * 8]
        assert values[:, 0, :, 0].tolist() == [
            [n + 49 for n in first],
            [n + 49 for n in second],
            [0] * 8,
        ]


def test_reserving_less_keeps_the_tensors_and_more_replaces_them() -> None:
    cache = KVCache(SHAPE)
    cache.reserve(2, 4)
    first = cache.read(0, slice(0, 1), 1)[0].data_ptr()
    cache.reserve(1, 3)
    assert cache.read(0, slice(0, 1), 1)[0].data_ptr() == first
    cache.reserve(3, 9)
    assert cache.read(0, slice(0, 3), 9)[0].shape == (3, 2, 9, 3)


def test_bytes_per_token_count_keys_and_values_of_all_layers() -> None:
    assert SHAPE.bytes_per_token() == 2 * 2 * 2 * 3 * 4


def test_memory_is_that_of_the_tokens_reserved() -> None:
    cache = KVCache(SHAPE)
    assert cache.num_bytes() == 0
    cache.reserve(3, 8)
    assert cache.num_bytes() == 3 * 8 * SHAPE.bytes_per_token()
