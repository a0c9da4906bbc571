"""What a vLLM server says of itself, at `/server_info?config_format=json`, as facts of a visit."""

from collections.abc import Mapping
from typing import Any

# vllm/config/compilation.py, CUDAGraphMode: an enum whose JSON is a number, or a pair of them.
_GRAPH_MODES = {0: "NONE", 1: "PIECEWISE", 2: "FULL"}


def facts_of(config: Any) -> dict[str, Any]:
    """Return keys of `Totals.backend` from the answer of `/server_info?config_format=json`, without what is not told.

    `config` keeps the parts that shape a time: the whole is 35 KB a visit, mostly the machine's packages.
    """
    told = config.get("vllm_config") if isinstance(config, dict) else None
    if not isinstance(told, dict):
        return {}
    scheduler, cache = told.get("scheduler_config") or {}, told.get("cache_config") or {}
    drafting, compiling = told.get("speculative_config") or {}, told.get("compilation_config") or {}
    found = {
        "max_requests": scheduler.get("max_num_seqs"),
        "max_batched_tokens": scheduler.get("max_num_batched_tokens"),
        "async_scheduling": scheduler.get("async_scheduling"),
        "graph_mode": _graph_mode(compiling.get("cudagraph_mode")),
        "kv_capacity_tokens": _capacity(cache),
        "prefix_cache": cache.get("enable_prefix_caching"),
        "spec_method": drafting.get("method"),
        "num_speculative_tokens": drafting.get("num_speculative_tokens"),
    }
    kept = {
        "scheduler": _plain(scheduler),
        "cache": _plain(cache),
        "drafting": _plain(drafting),
        "parallel": _plain(told.get("parallel_config") or {}, ("_parallel_size",)),
        "model": _plain(told.get("model_config") or {}, ("dtype", "quantization", "max_model_len")),
    }
    return {key: value for key, value in found.items() if value is not None} | {"config": kept}


def _capacity(cache: Mapping[str, Any]) -> int | None:
    """Return the tokens of all blocks. vLLM's own figure counts whole requests of the longest length, so less."""
    blocks, size = cache.get("num_gpu_blocks"), cache.get("block_size")
    return blocks * size if isinstance(blocks, int) and isinstance(size, int) else None


def _graph_mode(told: Any) -> str | None:
    """Name a mode; a pair is that of decoding passes and that of mixed ones."""
    if isinstance(told, list | tuple):
        names = [_GRAPH_MODES.get(part, str(part)) for part in told]
        return f"{names[0]} decoding, {names[1]} mixed" if len(names) == 2 else "/".join(names)
    return None if told is None else _GRAPH_MODES.get(told, str(told))


def _plain(part: Mapping[str, Any], ending: tuple[str, ...] = ("",)) -> dict[str, Any]:
    """Keep scalars that are set and whose names end so."""
    return {
        key: value
        for key, value in part.items()
        if isinstance(value, str | int | float) and key.endswith(ending)
    }
