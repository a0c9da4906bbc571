"""The report as one HTML file: no network, no script, every figure inside. The same input gives the same bytes.

The templates are in `reports/` for everyone to edit. Whatever comes from outside (names, reasons, settings) is escaped
by Jinja's autoescape, and a policy in the page forbids it to load or to run anything.
"""

from markupsafe import Markup

from dflash_bench.assets import folder
from dflash_bench.report import words
from dflash_bench.report.figures.acceptance import acceptance_figure
from dflash_bench.report.figures.break_even import break_even_figure
from dflash_bench.report.figures.speedup import speedup_figure
from dflash_bench.report.figures.step_time import step_time_figure
from dflash_bench.report.lossless import control, equalities
from dflash_bench.report.model import Report

FIGURES = (speedup_figure, acceptance_figure, break_even_figure, step_time_figure)
FILTERS = {
    "bounds": words.bounds,
    "digits": words.digits,
    "interval": words.interval,
    "milliseconds": words.milliseconds,
    "percent": words.percent,
    "ratio": words.ratio,
    "symbol": words.symbol,
    "whole": words.whole,
}


def render(report: Report) -> str:
    """Return the page of `report`, complete in itself."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    reports = folder("reports")
    templates = Environment(
        loader=FileSystemLoader(reports),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters.update(FILTERS)
    return templates.get_template("report.html.j2").render(
        report=report,
        figures=[figure(report) for figure in FIGURES],
        equalities=equalities(report.groups),
        control=control(report.groups),
        # A file of ours, and the only text that is not escaped beside the figures.
        style=Markup((reports / "style.css").read_text(encoding="utf-8")),
    )
