"""The whole run in one sentence: does the method help, where most, where least, and with which block.

A cell counts by its best arm: the best of those that help, else the best.
"""

from collections.abc import Mapping, Sequence
from typing import Any

NAMES = {
    "ar": "AR",
    "dflash": "DFlash",
    "draft_model": "The draft model",
    "eagle3": "EAGLE-3",
    "medusa": "Medusa",
    "ngram": "N-gram drafting",
}
VERBS = {
    "HELPS": "helps",
    "HURTS": "hurts",
    "NEUTRAL": "makes no difference",
    "UNPROVEN": "is not proven to help",
}
Entry = dict[str, Any]


def headline(
    entries: Sequence[Entry],
    primary: str | None = None,
    best_arms: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, str]:
    """Return {"verdict", "sentence"} for the entries of cells.json; `primary` is the id of the cell that decides.

    `best_arms` are those of each cell that cannot be told from its fastest.

    The verdict is one of the four, or MIXED: it helps in some cells and hurts in others.
    """
    compared = [entry for entry in entries if entry["verdict"] is not None]
    measured = [entry for entry in compared if entry["speedup"]["value"] is not None]
    if not measured:
        return {"verdict": "UNPROVEN", "sentence": "Nothing was measured that can be compared."}
    method = "dflash" if any(e["method"] == "dflash" for e in measured) else measured[0]["method"]
    best = best_by_cell([entry for entry in measured if entry["method"] == method])
    deciding = {primary: best[primary]} if primary in best else best
    verdict = _overall([entry["verdict"] for entry in deciding.values()])
    sentence = f"{NAMES.get(method, method)} {_where(deciding)}."
    if len(deciding) < len(best):
        sentence += f" Of all {len(best)} cells it {_counts(best)}."
    chosen = max(deciding.values(), key=_value)
    sentence += _choice((best_arms or {}).get(chosen["cell_id"], ()))
    sentence += _differing(measured)
    simulated = "SIMULATED. " if chosen["simulated"] else ""
    return {"verdict": verdict, "sentence": simulated + sentence}


def best_by_cell(entries: Sequence[Entry]) -> dict[str, Entry]:
    """Return the entry that stands for each cell."""
    best: dict[str, Entry] = {}
    for entry in entries:
        held = best.setdefault(entry["cell_id"], entry)
        if _standing(entry) > _standing(held):
            best[entry["cell_id"]] = entry
    return best


def _value(entry: Entry) -> Any:
    return entry["speedup"]["value"]


def _standing(entry: Entry) -> tuple[bool, float]:
    return entry["verdict"] == "HELPS", _value(entry)


def _overall(verdicts: list[str]) -> str:
    """Return the verdict of a run whose cells have `verdicts`."""
    if {"HELPS", "HURTS"} <= set(verdicts):
        return "MIXED"
    for verdict in ("HELPS", "HURTS", "UNPROVEN"):
        if verdict in verdicts:
            return verdict
    return "NEUTRAL"


def _where(best: dict[str, Entry]) -> str:
    """Say in how many cells it helps, hurts or neither, and by how much in the worst and in the best."""
    ordered = sorted(best.values(), key=_value)
    verdicts = {entry["verdict"] for entry in ordered}
    if len(ordered) == 1:
        return f"{VERBS[ordered[0]['verdict']]}: {_figure(ordered[0])}"
    if len(verdicts) == 1:
        counts = f"{VERBS[verdicts.pop()]} in all {len(best)} cells"
    else:
        counts = f"{_counts(best)} of {len(best)} cells"
    return f"{counts}: from {_figure(ordered[0])} to {_figure(ordered[-1])}"


def _figure(entry: Entry) -> str:
    """Return "3.90x (3.71-4.12) on sample-code at batch 1 with block 16"."""
    speedup, cell = entry["speedup"], entry["cell"]
    text = f"{speedup['value']:.2f}x"
    if speedup["ci_low"] is not None:
        text += f" ({speedup['ci_low']:.2f}-{speedup['ci_high']:.2f})"
    text += f" on {cell['workload']} at batch {cell['batch_size']}"
    if cell["context_length"] is not None:
        text += f", context {cell['context_length']}"
    if cell["temperature"]:
        text += f", temperature {cell['temperature']:g}"
    block = entry["block_size"]
    return f"{text} with block {block}" if block is not None else f"{text} ({entry['arm']})"


def _counts(best: dict[str, Entry]) -> str:
    """Return "helps in 3, hurts in 1"."""
    verdicts = [entry["verdict"] for entry in best.values()]
    return ", ".join(
        f"{VERBS[verdict]} in {verdicts.count(verdict)}"
        for verdict in ("HELPS", "NEUTRAL", "HURTS", "UNPROVEN")
        if verdict in verdicts
    )


def _differing(entries: Sequence[Entry]) -> str:
    """Say how many outputs differ from the baseline's, if any do: a faster arm with another text is no faster arm."""
    compared = sum(entry["lossless"]["compared"] for entry in entries)
    different = sum(entry["lossless"]["different"] for entry in entries)
    return f" {different} of {compared} outputs differ from the baseline's." if different else ""


def _choice(best: Sequence[str]) -> str:
    """Say which arms of the best cell cannot be told from the fastest."""
    if len(best) < 2:
        return ""
    return f" In the best cell {', '.join(best[:-1])} and {best[-1]} cannot be told apart."
