"""The whole run in a few sentences: does the method help, where most, where least, and with which block.

A cell counts by its best arm: the best of those that help, else the best. With several methods in the run, DFlash is
the one that is asked about (without it the fastest), and which method leads in how many cells follows. An arm with a
lossy rule stands for nothing and is named as such.
"""

from collections import Counter
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
    lossy = [entry["arm"] for entry in measured if entry.get("lossy")]
    faithful = [entry for entry in measured if not entry.get("lossy")]
    # A second plain arm says what features cost; it is no method that could help.
    judged = [entry for entry in faithful if entry["method"] != "ar"] or faithful
    if not judged:
        arms = ", ".join(dict.fromkeys(lossy))
        return {"verdict": "UNPROVEN", "sentence": f"Only LOSSY arms were measured: {arms}."}
    asked = any(entry["method"] == "dflash" for entry in judged)
    method = "dflash" if asked else max(judged, key=_standing)["method"]
    best = best_by_cell([entry for entry in judged if entry["method"] == method])
    deciding = {primary: best[primary]} if primary in best else best
    verdict = _overall([entry["verdict"] for entry in deciding.values()])
    sentence = f"{_name(method)} {_where(deciding)}."
    if len(deciding) < len(best):
        sentence += f" Of all {len(best)} cells it {_counts(best)}."
    chosen = max(deciding.values(), key=_value)
    sentence += _choice(chosen["arm"], (best_arms or {}).get(chosen["cell_id"], ()))
    sentence += _leaders(best_by_cell(judged), judged)
    sentence += _differing(judged)
    sentence += _lossy(list(dict.fromkeys(lossy)))
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
    """Return "3.90x (3.71-4.12) on sample-code at batch 1 with block 16", or with the arm's name."""
    speedup, cell = entry["speedup"], entry["cell"]
    text = f"{speedup['value']:.2f}x"
    if speedup["ci_low"] is not None:
        text += f" ({speedup['ci_low']:.2f}-{speedup['ci_high']:.2f})"
    text += f" on {cell['workload']} at batch {cell['batch_size']}"
    if cell["context_length"] is not None:
        text += f", context {cell['context_length']}"
    if cell["temperature"]:
        text += f", temperature {cell['temperature']:g}"
    if cell.get("max_new_tokens") is not None:
        text += f", {cell['max_new_tokens']} new tokens"
    if cell.get("request_rate") is not None:
        text += f", {cell['request_rate']:g} requests/s"
    if cell.get("target_quantization") is not None:
        text += f", {cell['target_quantization']} weights"
    block = entry["block_size"]
    # The arms of a sweep over blocks are told apart by these; any other by its name.
    swept = block is not None and entry["arm"].endswith(f"-b{block}")
    return f"{text} with block {block}" if swept else f"{text} ({entry['arm']})"


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


def _leaders(best: Mapping[str, Entry], entries: Sequence[Entry]) -> str:
    """Say which method's estimate is the largest in how many cells, where there are several methods."""
    methods = {entry["method"] for entry in entries}
    if len(methods) < 2:
        return ""
    led = Counter(_inside(_name(entry["method"])) for entry in best.values()).most_common()
    fastest = f" Of {len(methods)} methods the fastest by estimate is"
    if len(led) == 1:
        return f"{fastest} {led[0][0]}{'' if len(best) == 1 else f' in all {len(best)} cells'}."
    return f"{fastest} {_listed([f'{n} in {count}' for n, count in led])} of {len(best)} cells."


def _choice(chosen: str, best: Sequence[str]) -> str:
    """Say which arms of the best cell cannot be told from the fastest, and whether the `chosen` one is among them."""
    if best and chosen not in best:
        apart = "" if len(best) == 1 else " and cannot be told apart"
        return f" In that cell {_listed(best)} {'is' if len(best) == 1 else 'are'} faster{apart}."
    if len(best) < 2:
        return ""
    return f" In the best cell {_listed(best)} cannot be told apart."


def _listed(parts: Sequence[str]) -> str:
    """Return "a, b and c"; of more than four the first three and how many others."""
    if len(parts) > 4:
        parts = [*parts[:3], f"{len(parts) - 3} others"]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _lossy(arms: Sequence[str]) -> str:
    """Name the arms whose rule changes the text: whatever their speed, it is that of another model."""
    if not arms:
        return ""
    return f" LOSSY, so not among them: {', '.join(arms)}."


def _name(method: str) -> str:
    return NAMES.get(method, method)


def _inside(name: str) -> str:
    """Return a method's name as it stands inside a sentence."""
    return name[0].lower() + name[1:] if name.startswith(("The ", "N-gram")) else name
