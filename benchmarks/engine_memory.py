"""What the caches of a target and its drafter take: by formula, by the tensors that exist, by the process.

One copy of keys and values per model means that the tensors' bytes are the formula's. Every batch and
context is measured in a process of its own, which has allocated nothing before.
"""

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil
import torch

from benchmarks.engine_models import Models
from dflash_bench.engine.loop import generate
from dflash_bench.engine.methods.dflash_config import read_config
from dflash_bench.engine.registry import build
from dflash_bench.engine.request import Request
from dflash_bench.engine.sampling import Sampling
from dflash_bench.engine.target import Target

SHAPES = ((1, 128), (1, 512), (8, 128), (8, 512))
NEW_TOKENS = 4


@dataclass(frozen=True)
class MemoryRow:
    """Bytes for `batch_size` sequences of `context` tokens.

    target_formula, drafter_formula  bytes per token x rows x slots of a row
    target_tensors, drafter_tensors  bytes of the tensors that `reserve` made
    reserve_rss                      growth of the process's memory as both reserved
    run_rss                          growth after they answered as well: activations are in it
    """

    model: str
    batch_size: int
    context: int
    target_formula: int
    target_tensors: int
    drafter_formula: int
    drafter_tensors: int
    reserve_rss: int
    run_rss: int


def memory(models: Models) -> Iterator[MemoryRow]:
    """Measure every shape in a fresh process."""
    context = multiprocessing.get_context("spawn")
    for batch_size, length in SHAPES:
        with context.Pool(1) as pool:
            yield pool.apply(measure, (models, batch_size, length))


def measure(models: Models, batch_size: int, context: int) -> MemoryRow:
    """Reserve, then answer; read the memory around both."""
    torch.set_num_threads(1)
    target = Target.load(models.target)
    drafter = build("dflash", target, {"draft": models.dflash})
    prompt = tuple(4 + i % 200 for i in range(context - NEW_TOKENS))
    asked = [Request(f"r{i}", prompt, NEW_TOKENS, frozenset(), i) for i in range(batch_size)]
    slots = context + drafter.block_size  # as the loop reserves: the last block may reach beyond
    storages()  # the listing itself takes memory, at its first time
    before = rss()
    target_bytes = grown(lambda: target.reserve(batch_size, slots, drafter.taps))
    drafter_bytes = grown(lambda: drafter.reserve(batch_size, slots))
    reserved = rss() - before
    # One short prompt first: what libraries allocate once, at the first pass, is not counted.
    short = [Request("warm", prompt[:16], NEW_TOKENS, frozenset(), 0)]
    list(generate(target, drafter, short, batch_size=1, sampling=Sampling()))
    before = rss()
    list(generate(target, drafter, asked, batch_size=batch_size, sampling=Sampling()))
    config = read_config(models.dflash / "config.json")
    cells = config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    return MemoryRow(
        model=models.name,
        batch_size=batch_size,
        context=context,
        target_formula=target.kv_bytes_per_token() * batch_size * slots,
        target_tensors=target_bytes,
        drafter_formula=2 * cells * target.dtype.itemsize * batch_size * slots,
        drafter_tensors=drafter_bytes,
        reserve_rss=reserved,
        run_rss=reserved + rss() - before,
    )


def rss() -> int:
    """Return the process's resident bytes."""
    gc.collect()
    return int(psutil.Process(os.getpid()).memory_info().rss)


def grown(act: Callable[[], None]) -> int:
    """Return the bytes of the tensors that are alive after `act` and were not before."""
    before = storages()
    act()
    after = storages()
    return sum(size for place, size in after.items() if place not in before)


def storages() -> dict[int, int]:
    """Return the memory of all living tensors: its size by its address, views counted once."""
    gc.collect()
    found = (each for each in gc.get_objects() if issubclass(type(each), torch.Tensor))
    memories = [each.untyped_storage() for each in found if each.device.type == "cpu"]
    return {each.data_ptr(): each.nbytes() for each in memories if each.nbytes()}
