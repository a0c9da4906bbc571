"""What backends said of themselves, visit by visit: the last word of each, and sums of what they count."""

from typing import Any

from dflash_bench.analysis import metrics
from dflash_bench.analysis.frames import Sample

PER_VISIT = ("preemptions", "queue_s", "cached_prompt_tokens", "ended_requests")


def last_state(sample: Sample) -> dict[str, Any]:
    """Return what the backend said of itself in the last visit."""
    states = sample.visits["backend"].tolist()
    return dict(states[-1]) if states else {}


def summed_state(sample: Sample, key: str) -> float | None:
    """Return the sum of what each visit's counters gained; None unless every visit tells it."""
    values = [state.get(key) for state in sample.visits["backend"]]
    told = [value for value in values if value is not None]
    return sum(told) if told and len(told) == len(values) else None


def sentences(sample: Sample, key: str) -> list[str]:
    """Return the sentences under `key` of all visits, each once."""
    told = (sentence for state in sample.visits["backend"] for sentence in state.get(key, ()))
    return list(dict.fromkeys(told))


def cached_tokens(sample: Sample) -> int | None:
    """Return the prompt tokens that were not computed: as the answers tell, else by the counters."""
    told = metrics.count(sample.answered["cached_tokens"])
    if told is not None:
        return told
    counted = summed_state(sample, "cached_prompt_tokens")
    return None if counted is None else round(counted)
