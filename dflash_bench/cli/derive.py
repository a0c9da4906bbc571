"""Records -> cells -> verdicts -> report: what `sweep` does last and `report` does again, from the same files alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dflash_bench.errors import ConfigError
from dflash_bench.records import manifest as manifests
from dflash_bench.records.store import FILE, read_lines

if TYPE_CHECKING:
    from dflash_bench.analysis.cells import Analysis

DERIVED = ("cells.json", "verdicts.json")
RAW = (manifests.FILE, manifests.PLAN_FILE, FILE)


@dataclass(frozen=True)
class Derived:
    """What was derived: the analysis, the closing lines that name the report's place, and whether cells are invalid."""

    analysis: "Analysis"
    closing_lines: str
    invalid: bool


def derive(folder: Path, page: Path | None = None) -> Derived:
    """Write `cells.json`, `verdicts.json` and the report of `folder`, from its manifest and records."""
    from dflash_bench.analysis.cells import analyse
    from dflash_bench.report.console import closing_lines
    from dflash_bench.report.html import render
    from dflash_bench.report.model import build_report

    page = page or folder / "report.html"
    _refuse_to_overwrite(page)
    manifest = manifests.read_manifest(folder)
    spec, plan = manifests.read_spec(manifest), manifests.planned(manifest)
    analysis = analyse(plan, spec, read_lines(folder))
    if not any(entry["requests"] for entry in analysis.cells):
        raise ConfigError(
            f"{folder}: no measured visit was finished, so there is nothing to report.",
            remedy="Go on with `dflash-bench sweep CONFIG --resume`.",
        )
    report = build_report(manifest, plan, analysis.cells, analysis.verdicts)
    manifests.write_json(folder / manifests.PLAN_FILE, plan.model_dump(mode="json"))
    manifests.write_json(folder / "cells.json", analysis.cells)
    manifests.write_json(folder / "verdicts.json", analysis.verdicts)
    manifests.write_text(page, render(report))
    return Derived(
        analysis, closing_lines(report, page), _invalid(analysis.cells, spec.dtype == "float32")
    )


def _refuse_to_overwrite(page: Path) -> None:
    if page.name in (*RAW, *DERIVED):
        raise ConfigError(
            f"-o: {page} is a name that a results folder needs itself.",
            remedy="Name an HTML file, such as report.html.",
        )


def _invalid(cells: list[dict[str, Any]], exact: bool) -> bool:
    """Tell whether a cell failed, is no valid measurement, or changed a text where arithmetic is no excuse (`exact`).

    A rule that promises no text may change it: such an arm is labelled LOSSY, its cell is as valid as any.
    """
    return any(
        entry["failed"]
        or entry["identities_broken"]
        or any(found["severity"] == "invalid" for found in entry["lints"])
        or (exact and _broke_its_promise(entry))
        for entry in cells
    )


def _broke_its_promise(entry: dict[str, Any]) -> bool:
    found = entry["lossless"]
    return bool(found["promise"] == "text" and found["different"])
