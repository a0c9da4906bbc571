"""Counters of a server, read twice: what they gained in between.

The text format of Prometheus (https://prometheus.io/docs/instrumenting/exposition_formats/), parsed by its own client.
A sample counts under its exact name: `x_created` is the time at which counter `x` was made, some 1.8e9 seconds, which a
match by prefix would add to it. Samples that differ only in labels (engines of one server) are summed. A counter that
went down, is gone, or was made anew, says that the server restarted in between: then the difference says nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Counters:
    """A snapshot: values by sample name and labels, and the names of those that only grow.

    `drained`: reading it emptied it, so that it already is a difference (TensorRT-LLM's iteration statistics).
    """

    samples: Mapping[tuple[str, Labels], float]
    growing: frozenset[str] = frozenset()
    drained: bool = False

    def total(self, name: str) -> float | None:
        """Return the sum over all labels; None if there is no such sample."""
        found = [value for (sample, _), value in self.samples.items() if sample == name]
        return sum(found) if found else None

    def by(self, name: str, label: str) -> dict[str, float]:
        """Return the sums by the values of `label`."""
        sums: dict[str, float] = {}
        for (sample, labels), value in self.samples.items():
            if sample == name and (key := dict(labels).get(label)) is not None:
                sums[key] = sums.get(key, 0.0) + value
        return sums

    def labels(self, name: str) -> dict[str, str]:
        """Return the labels of the first sample of this name: `..._info` metrics keep their facts there."""
        return next((dict(labels) for sample, labels in self.samples if sample == name), {})


def read(text: str) -> Counters | None:
    """Read an exposition; None if the text is none, or holds no sample. Needs prometheus_client."""
    # Here, for what names a dialect must not need what reads its counters.
    from prometheus_client.parser import text_string_to_metric_families

    samples: dict[tuple[str, Labels], float] = {}
    growing: set[str] = set()
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                samples[key] = samples.get(key, 0.0) + sample.value
                is_sum = family.type == "histogram" and sample.name.endswith(("_count", "_sum"))
                if family.type == "counter" or is_sum:
                    growing.add(sample.name)
    except ValueError:
        return None
    return Counters(samples, frozenset(growing)) if samples else None


@dataclass(frozen=True)
class Delta:
    """What happened between two snapshots."""

    before: Counters
    after: Counters

    def gained(self, name: str) -> float | None:
        """Return by how much `name` grew; a counter that did not exist before started from 0; None: not told."""
        now = self.after.total(name)
        if now is None or self.after.drained:
            return now
        return now - (self.before.total(name) or 0.0)

    def count(self, name: str) -> int | None:
        """Return by how many `name` grew."""
        gained = self.gained(name)
        return None if gained is None else round(gained)

    def seconds(self, name: str) -> float | None:
        """Return by how many seconds `name` grew, free of the last digits that subtraction invents."""
        gained = self.gained(name)
        return None if gained is None else round(gained, 9)

    def by_position(self, name: str, label: str = "position") -> tuple[int, ...] | None:
        """Return the gains of a counter with one series per draft position, from position 0; None: not told."""
        now = self.after.by(name, label)
        if not now or not all(key.isdecimal() for key in now):
            return None
        then = {} if self.after.drained else self.before.by(name, label)
        gains = {int(key): value - then.get(key, 0.0) for key, value in now.items()}
        return tuple(round(gains.get(position, 0.0)) for position in range(max(gains) + 1))

    def restarts(self) -> list[str]:
        """Return a sentence if the server's counters started anew in between."""
        if self.after.drained:
            return []
        growing = self.before.growing | self.after.growing
        for key, value in self.before.samples.items():
            name, now = key[0], self.after.samples.get(key)
            # A counter whose labels are new to a server that started anew is not there until it counts.
            lost = name in growing and (now or 0.0) < value
            renewed = name.endswith("_created") and now is not None and now > value
            if lost or renewed:
                became = "nothing" if now is None else f"{now:g}"
                return [
                    f"the counters started anew during the visit ({name} went from {value:g} to {became}): "
                    "the server restarted, and what they counted is lost"
                ]
        return []
