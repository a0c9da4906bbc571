"""The figures of a report, one per file: small SVG panels that stand inside the page and take its colours."""
