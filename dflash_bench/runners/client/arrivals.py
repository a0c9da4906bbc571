"""When the requests of an open loop are due: at random, but at the same moments in every arm."""

import random
from itertools import accumulate


def due_times(count: int, rate: float, burstiness: float, seed: int) -> list[float]:
    """Return when each of `count` requests is due, in seconds after the first, which is due at once.

    Gaps are gamma-distributed with mean 1 / `rate` and shape `burstiness`: 1 gives a Poisson process, less comes in
    bursts, more is steadier. These are the words of vLLM's benchmark (`vllm bench serve --request-rate --burstiness`).
    """
    chance = random.Random(f"arrivals/{seed}")
    scale_s = 1 / (rate * burstiness)
    gaps = (chance.gammavariate(burstiness, scale_s) for _ in range(count - 1))
    return list(accumulate(gaps, initial=0.0))[:count]
