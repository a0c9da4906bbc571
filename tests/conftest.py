"""What all tests share: hypothesis profiles, one thread, the scripted runner, the authors' data where it lies."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from dflash_bench.runners.registry import register
from tests.fakes.scripted import Scripted

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50)
settings.register_profile(
    "dev", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

# OpenMP's barriers stall where threads outnumber free cores; the engine's own default is one as well.
os.environ.setdefault("OMP_NUM_THREADS", "1")

register("scripted", Scripted)


@pytest.fixture(scope="session")
def authors_data() -> Path:
    """The folder with the authors' files, which DFLASH_BENCH_DATA names."""
    folder = os.environ.get("DFLASH_BENCH_DATA")
    if not folder or not (Path(folder) / "gsm8k_test.jsonl").exists():
        pytest.skip("the authors' data files are not here; DFLASH_BENCH_DATA can name their folder")
    return Path(folder)
