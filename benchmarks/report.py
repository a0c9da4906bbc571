"""How long a report takes: `python benchmarks/report.py [REQUESTS]` makes up so many records and reports on them.

Prints one JSON line: records, size, seconds and peak memory of `dflash-bench report`, a process of its own. The
records are as large as real ones (about 100 tokens, 20 steps a request); they say nothing about DFlash.
"""

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dflash_bench.plan import Plan, Visit, make_plan
from dflash_bench.records.manifest import write_json
from dflash_bench.records.store import FILE
from dflash_bench.spec import Spec

SPEC = {
    "name": "made-up",
    "target": "none",
    "arms": {"ar": {"method": "ar"}, "dflash": {"method": "dflash", "draft": "none"}},
    "workloads": ["sample-math", "sample-code"],
    "sweep": {"block_size": [4, 8, 16], "batch_size": [1, 4]},
}


def main(requests: int) -> None:
    spec = Spec.model_validate(SPEC)
    plan = make_plan(spec)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        write_json(path / "plan.json", plan.model_dump(mode="json"))
        manifest = {"schema_version": 1, "name": spec.name, "spec": spec.model_dump(mode="json")}
        write_json(path / "manifest.json", manifest)
        written = write_records(path / FILE, plan, requests)
        size = (path / FILE).stat().st_size
        began = time.perf_counter()
        command = [sys.executable, "-m", "dflash_bench", "report", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
        page = (path / "report.html").stat().st_size
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(
        json.dumps(
            {
                "requests": written,
                "records_bytes": size,
                "report_s": round(seconds, 2),
                "peak_memory_bytes": peak,
                "page_bytes": page,
            }
        )
    )


def write_records(path: Path, plan: Plan, requests: int) -> int:
    """Write about `requests` requests, spread over the plan's visits; return how many."""
    each = -(-requests // len(plan.visits))
    with path.open("w", encoding="utf-8") as stream:
        for visit in plan.visits:
            for line in visit_lines(visit, plan, each):
                stream.write(json.dumps(line) + "\n")
    return each * len(plan.visits)


def visit_lines(visit: Visit, plan: Plan, requests: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of one made-up visit."""
    chance = random.Random(visit.id)
    key = {"visit": visit.id, "attempt": 1}
    place = {"cell": visit.cell, "arm": visit.arm, "round": visit.round, "role": visit.role}
    yield key | {"kind": "visit_start", "time": "", "load_average": None} | place
    block = plan.arms[visit.arm].block_size or 1
    wall = 0.0
    for number in range(requests):
        line = key | request_line(number, block, chance)
        wall += sum(line["window"][name] for name in line["window"] if name.endswith("_s"))
        wall -= line["window"]["cpu_s"]
        yield line
    totals = {"wall_s": wall, "window_wall_s": wall, "occupancy": 1.0, "requests": requests}
    yield key | {"kind": "visit_end", "failed": 0} | totals


def request_line(number: int, block: int, chance: random.Random) -> dict[str, Any]:
    """Return a request whose text depends on its number alone, and whose times are random."""
    tokens = 80 + number % 40
    accepted: list[int] = []
    while (left := tokens - 1 - sum(accepted) - len(accepted)) > 0:
        accepted.append(min(chance.randrange(block), left - 1))
    steps = len(accepted)
    step_s = 0.003 * (1 + 0.03 * block) * chance.lognormvariate(0, 0.05)
    return {
        "kind": "request",
        "request": f"p{number}",
        "prompt_sha256": f"{number:064x}",
        "prompt_tokens": 60,
        "output_tokens": tokens,
        "output_ids": [(number + index) % 1000 for index in range(tokens)],
        "output_text": "word " * tokens,
        "finish_reason": "eos",
        "error": None,
        "ttft_s": 0.01,
        "e2e_s": 0.01 + step_s * steps,
        "draft_prefill_s": 0.001,
        "steps": {
            "drafted": [block - 1] * steps,
            "accepted": accepted,
            "committed": [count + 1 for count in accepted],
            "cut": [0] * steps,
        },
        "window": {
            "tokens": tokens,
            "steps": steps,
            "drafted": (block - 1) * steps,
            "accepted": sum(accepted),
            "prefill_s": 0.01,
            "draft_prefill_s": 0.001,
            "draft_s": 0.2 * step_s * steps,
            "verify_s": 0.7 * step_s * steps,
            "commit_s": 0.05 * step_s * steps,
            "other_s": 0.05 * step_s * steps,
            "cpu_s": step_s * steps,
        },
    }


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
