"""Records -> cells -> verdicts -> report: what `sweep` does last and `report` does again, from the same files alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dflash_bench.errors import ConfigError
from dflash_bench.records import manifest as manifests
from dflash_bench.records.store import disk_errors, read_lines

if TYPE_CHECKING:
    from dflash_bench.analysis.cells import Analysis


@dataclass(frozen=True)
class Derived:
    """What was derived: the analysis, and the closing lines that name the report's place."""

    analysis: "Analysis"
    closing_lines: str


def derive(folder: Path, page: Path | None = None) -> Derived:
    """Write `cells.json`, `verdicts.json` and the report of `folder`, from its manifest, plan and records."""
    from dflash_bench.analysis.cells import analyse
    from dflash_bench.report.console import closing_lines
    from dflash_bench.report.html import render
    from dflash_bench.report.model import build_report

    manifest = manifests.read_manifest(folder)
    plan = manifests.read_plan(folder)
    analysis = analyse(plan, manifests.read_spec(manifest), read_lines(folder))
    if not any(entry["requests"] for entry in analysis.cells):
        raise ConfigError(
            f"{folder}: no measured visit was finished, so there is nothing to report.",
            remedy="Go on with `dflash-bench sweep CONFIG --resume`.",
        )
    manifests.write_json(folder / "cells.json", analysis.cells)
    manifests.write_json(folder / "verdicts.json", analysis.verdicts)
    report = build_report(manifest, plan, analysis.cells, analysis.verdicts)
    page = page or folder / "report.html"
    with disk_errors(page):
        page.write_text(render(report), encoding="utf-8")
    return Derived(analysis, closing_lines(report, page))
