"""What an SGLang server says of itself at `/server_info`, as facts of a visit.

It answers with every resolved argument, some 450 of them and half of them twice (entrypoints/http_server.py and
managers/scheduler_components/ of 0.5.23): those that shape a time are kept. The drafts of a step are one less than
`speculative_num_draft_tokens`, which counts the anchor.
"""

from collections.abc import Mapping
from typing import Any

_SHAPING = {
    "attention_backend",
    "chunked_prefill_size",
    "context_length",
    "device",
    "dp_size",
    "dtype",
    "enable_deterministic_inference",
    "enable_mixed_chunk",
    "enable_torch_compile",
    "incremental_streaming_output",
    "kv_cache_dtype",
    "max_prefill_tokens",
    "mem_fraction_static",
    "num_continuous_decode_steps",
    "page_size",
    "pp_size",
    "prefill_attention_backend",
    "decode_attention_backend",
    "quantization",
    "random_seed",
    "sampling_backend",
    "schedule_conservativeness",
    "schedule_policy",
    "stream_interval",
    "tp_size",
}
_METHOD = "speculative_"
# Names that begin so whatever method runs, with their defaults.
_METHODS_OWN = {"NGRAM": "speculative_ngram_", "DSPARK": "speculative_dspark_"}


def facts_of(config: Any) -> dict[str, Any]:
    """Return keys of `Totals.backend` from the answer of `/server_info`, without what is not told."""
    if not isinstance(config, dict):
        return {}
    states = config.get("internal_states") or [{}]
    algorithm = config.get("speculative_algorithm")
    window = config.get("speculative_num_draft_tokens")
    found = {
        "max_requests": _max_requests(config, states),
        "max_batched_tokens": _max_batched_tokens(config),
        "async_scheduling": _negated(config.get("disable_overlap_schedule")),
        "graph_mode": _graph_mode(config.get("cuda_graph_config")),
        "kv_capacity_tokens": config.get("max_total_num_tokens"),
        "prefix_cache": _negated(config.get("disable_radix_cache")),
        "spec_method": algorithm,
        "num_speculative_tokens": window - 1 if algorithm and isinstance(window, int) else None,
    }
    kept: dict[str, Any] = {
        key: value
        for key, value in config.items()
        if value is not None and isinstance(value, str | int | float) and _kept(key, algorithm)
    }
    memory = states[0].get("memory_usage")
    if isinstance(memory, dict):
        kept["memory_usage_gb"] = memory
    return {key: value for key, value in found.items() if value is not None} | {"config": kept}


def _kept(key: str, algorithm: str | None) -> bool:
    if not key.startswith(_METHOD):
        return key in _SHAPING
    owner = next(
        (name for name, prefix in _METHODS_OWN.items() if key.startswith(prefix)), algorithm
    )
    return algorithm is not None and owner == algorithm


def _max_requests(config: Mapping[str, Any], states: list[Mapping[str, Any]]) -> int | None:
    """Return the most requests that run at once: of all data-parallel ranks, after memory has had its say."""
    told = [state.get("effective_max_running_requests_per_dp") for state in states]
    counts = [count for count in told if isinstance(count, int)]
    return sum(counts) if counts else config.get("max_running_requests")


def _max_batched_tokens(config: Mapping[str, Any]) -> int | None:
    """Return the most tokens of a prefill pass: of a chunk, where prompts are cut into chunks (-1 is not)."""
    chunk = config.get("chunked_prefill_size")
    return chunk if isinstance(chunk, int) and chunk > 0 else config.get("max_prefill_tokens")


def _negated(disabled: Any) -> bool | None:
    return None if disabled is None else not disabled


def _graph_mode(told: Any) -> str | None:
    """Name how decoding and prefill passes are captured: full, breakable or disabled."""
    if not isinstance(told, dict):
        return None
    parts = {phase: (told.get(phase) or {}).get("backend") for phase in ("decode", "prefill")}
    return ", ".join(f"{backend} {phase}" for phase, backend in parts.items() if backend) or None
