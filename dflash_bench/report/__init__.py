"""A result, shown: one HTML file that can be forwarded, and the last lines that a sweep prints.

Needs neither torch nor network.

    build_report(manifest, plan, cells, verdicts) -> Report     model.py
    render(report) -> str                                       html.py
    closing_lines(report, page) -> str                          console.py
"""
