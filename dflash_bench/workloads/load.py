"""From a workload to its items: the first `count` rows in the authors' order, each turned into a question."""

from itertools import islice

from dflash_bench.errors import ConfigError
from dflash_bench.workloads.formats import item_from_row, user_message
from dflash_bench.workloads.prompts import Item
from dflash_bench.workloads.rows import Row
from dflash_bench.workloads.source import source_rows
from dflash_bench.workloads.template import field_text, fill
from dflash_bench.workloads.workload import AnswerRule, Workload


def load_items(workload: Workload, count: int, data_dir: str | None = None) -> list[Item]:
    """Return the first `count` items of `workload`; all of them where it has fewer.

    `data_dir` is a folder with the authors' files, or the file itself; see `source.source_rows`.
    """
    items: dict[str, Item] = {}
    rows = islice(source_rows(workload.source, data_dir), count)
    for number, row in enumerate(rows):
        item = _item(workload, row, f"{workload.name}/{number}")
        if item.id in items:
            # Answers are paired by id: a second one would be compared with the first one's.
            raise ConfigError(
                f"{row.where}: the id {item.id!r} stands twice.", remedy="Rename one."
            )
        items[item.id] = item
    if not items:
        raise ConfigError(
            f"workloads: the source of '{workload.name}' gives no rows.",
            remedy="Check its `select` and its file.",
        )
    return list(items.values())


def _item(workload: Workload, row: Row, fallback_id: str) -> Item:
    if workload.template is None:
        return item_from_row(row, fallback_id)
    return Item(
        id=field_text(row, workload.id) if workload.id else fallback_id,
        text=None,
        messages=(user_message(fill(workload.template, row)),),
        answer=_answer(workload.answer, row) if workload.answer else None,
    )


def _answer(rule: AnswerRule, row: Row) -> str:
    text = field_text(row, rule.field)
    return text if rule.after is None else text.rpartition(rule.after)[2].strip()
