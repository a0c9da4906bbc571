"""Keys and values of a batch in which every row has its own length.

One tensor for keys and one for values, in which *slot index = position* for all that is committed. The
cache does not know how long a row is: whoever reads says which slots are visible. To roll back
rejected tokens is therefore nothing but to lower a length somewhere else. What lies beyond the length
stays there, and is rewritten in the very forward pass in which it would become visible, before
attention reads. Only the accepted path of a tree has to be moved to its positions.

Rows in use are packed at the front, so that a batch of A rows is a view and not a gather.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class CacheShape:
    """What one token's keys (and as many values) take, in every layer."""

    num_layers: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device

    def bytes_per_token(self) -> int:
        """Bytes of keys and values that one token occupies over all layers."""
        return 2 * self.num_layers * self.kv_heads * self.head_dim * self.dtype.itemsize


class KVCache:
    """Two tensors, [layers, rows, kv heads, max length, head dim]: a head's slots are adjacent.

    Attention reads a head's whole past in every pass and writes a few slots of it, so the layout is
    the reader's.
    """

    def __init__(self, shape: CacheShape) -> None:
        self._shape = shape
        self._keys, self._values = self._allocate(0, 0), self._allocate(0, 0)

    def reserve(self, rows: int, max_length: int) -> None:
        """Make room for `rows` sequences of `max_length` tokens; what is large enough stays."""
        if self._keys.shape[1] >= rows and self._keys.shape[3] >= max_length:
            return
        self._keys = self._values = self._allocate(0, 0)  # what was there goes before the new comes
        self._keys, self._values = (self._allocate(rows, max_length) for _ in range(2))

    def num_bytes(self) -> int:
        """Bytes of memory that keys and values take."""
        return self._keys.nbytes + self._values.nbytes

    def at(self, first_row: int, slots: Tensor, view_length: int) -> "CacheView":
        """Open `slots` [A, K] of A rows from `first_row` for one forward pass.

        What is written there comes back with slots 0..view_length-1 of the same rows.
        """
        rows = slice(first_row, first_row + slots.shape[0])
        return CacheView(self._keys, self._values, rows, self._flat(slots, first_row), view_length)

    def read(self, layer: int, rows: slice, length: int) -> tuple[Tensor, Tensor]:
        """View the first `length` slots of `rows` as keys and values [A, Hkv, length, D]."""
        return self._keys[layer, rows, :, :length], self._values[layer, rows, :, :length]

    @torch.inference_mode()
    def move_slots(self, source: Tensor, destination: Tensor) -> None:
        """Copy what is at slots `source` [A, L] of the first A rows to `destination` [A, L]."""
        come, go = self._flat(source, 0), self._flat(destination, 0)
        for store in (self._keys, self._values):
            flat = store.flatten(1, 3)
            flat.index_copy_(1, go, flat[:, come])

    @torch.inference_mode()
    def move_row(self, source: int, destination: int) -> None:
        """Copy a whole row, so that a finished row's place can be taken by another."""
        for store in (self._keys, self._values):
            store[:, destination] = store[:, source]

    def _flat(self, slots: Tensor, first_row: int) -> Tensor:
        """Return the indices [A*Hkv*K] of slots [A, K] where all heads of all rows lie end to end."""
        heads, max_length = self._keys.shape[2:4]
        first, last = first_row * heads, (first_row + slots.shape[0]) * heads
        starts = torch.arange(first, last, device=slots.device).view(-1, heads) * max_length
        return (starts[:, :, None] + slots[:, None]).flatten()

    def _allocate(self, rows: int, max_length: int) -> Tensor:
        # Zeros, not whatever memory held: a masked slot has weight 0, but 0 times NaN is NaN.
        shape = self._shape
        return torch.zeros(
            (shape.num_layers, rows, shape.kv_heads, max_length, shape.head_dim),
            dtype=shape.dtype,
            device=shape.device,
        )


class CacheView:
    """One forward pass's window on a cache; what Hugging Face attention takes as `past_key_values`.

    Of transformers' cache interface only `update` is called when the mask is four-dimensional and
    the positions are given; the two sizes are answered as well, since models may ask for them.
    """

    def __init__(
        self, keys: Tensor, values: Tensor, rows: slice, slots: Tensor, view_length: int
    ) -> None:
        """Look at `rows` of the stores; `slots` [A*Hkv*K] are those to be written, in `_flat`'s order."""
        # All layers' views in a few operations, instead of a few for each.
        self._flat = [store.flatten(1, 3).unbind(0) for store in (keys, values)]
        self._seen = [store[:, rows, :, :view_length].unbind(0) for store in (keys, values)]
        self._slots = slots
        self._view_length = view_length

    def update(
        self, keys: Tensor, values: Tensor, layer_idx: int, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Write keys and values [A, Hkv, K, D]; return all that may be seen, [A, Hkv, view, D]."""
        for store, new in zip(self._flat, (keys, values), strict=True):
            store[layer_idx].index_copy_(0, self._slots, new.flatten(0, 2))
        return self._seen[0][layer_idx], self._seen[1][layer_idx]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of slots in view, with those that this pass writes."""
        return self._view_length

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        """Return (keys in view, offset of the first): transformers' shape of an attention mask."""
        return self._view_length, 0
