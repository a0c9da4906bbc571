"""What is asked: the prompts of each (workload, context length), rendered once for all arms, as requests."""

import hashlib
from dataclasses import dataclass
from typing import Any

from dflash_bench.errors import ConfigError
from dflash_bench.plan import Cell, Plan, workload_name
from dflash_bench.runners.base import Request, Runner
from dflash_bench.spec import Spec
from dflash_bench.workloads.filler import filler_source
from dflash_bench.workloads.load import load_items
from dflash_bench.workloads.prompts import Prompt
from dflash_bench.workloads.shape import Shaped, shape
from dflash_bench.workloads.workload import Workload, load_workload

Key = tuple[str, int | None]


@dataclass(frozen=True)
class Asked:
    """The prompts of one (workload, context length), with the workload's stop rule."""

    workload: Workload
    shaped: Shaped

    def requests(self, max_new_tokens: int) -> list[Request]:
        """Return the prompts as requests. A request's noise key depends on its name alone."""
        return [
            Request(
                id=prompt.id,
                prompt=prompt.ids,
                key=noise_key(self.workload.name, prompt.id),
                max_new_tokens=max_new_tokens,
                stop=self.workload.stop,
                text=prompt.text,
            )
            for prompt in self.shaped.prompts
        ]


def noise_key(workload: str, prompt: str) -> int:
    """Return the counter of a prompt's random noise, 0 <= key < 2**31: the same in every arm, round and batch."""
    digest = hashlib.sha256(f"{workload}/{prompt}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def prepare(spec: Spec, plan: Plan, runner: Runner) -> dict[Key, Asked]:
    """Load and render the prompts of every cell; a prompt that no arm could finish is refused here."""
    references = {workload_name(reference): reference for reference in spec.workloads}
    asked: dict[Key, Asked] = {}
    for cell in plan.cells.values():
        key = key_of(cell)
        if key not in asked:
            asked[key] = _ask(spec, references[cell.workload], cell.context_length, runner)
    return asked


def key_of(cell: Cell) -> Key:
    """Return which prompts `cell` asks."""
    return cell.workload, cell.context_length


def summary(asked: dict[Key, Asked]) -> dict[str, Any]:
    """Describe the prompts for the manifest: how many, how long, and one hash over all of their tokens."""
    return {
        f"{workload}.c{context}" if context else workload: {
            "prompts": len(entry.shaped.prompts),
            "left_out": entry.shaped.left_out,
            "stop": list(entry.workload.stop),
            "prompt_tokens": [len(prompt.ids) for prompt in entry.shaped.prompts],
            "sha256": _hash_of(entry.shaped.prompts),
        }
        for (workload, context), entry in asked.items()
    }


def shortfalls(asked: dict[Key, Asked], wanted: int) -> list[str]:
    """Say of each workload that has fewer prompts than `wanted`, and of each prompt left out, that it is so."""
    said = []
    for (workload, context), entry in asked.items():
        kept, left_out = len(entry.shaped.prompts), entry.shaped.left_out
        if left_out:
            said.append(
                f"{workload}: {left_out} prompts could not be brought to {context} tokens and are left out."
            )
        if kept + left_out < wanted:
            said.append(
                f"{workload}: has {kept + left_out} prompts, fewer than the {wanted} asked for."
            )
    return said


def _hash_of(prompts: list[Prompt]) -> str:
    return hashlib.sha256("".join(prompt.sha256 for prompt in prompts).encode()).hexdigest()


def _ask(spec: Spec, reference: str, context_length: int | None, runner: Runner) -> Asked:
    workload = load_workload(reference)
    items = load_items(workload, spec.design.prompts, spec.data_dir)
    limit = runner.max_positions
    answer = spec.most_new_tokens
    room = limit - answer if limit is not None else None
    if context_length is not None and room is not None and context_length > room:
        raise ConfigError(
            f"sweep.context_length: {context_length} with max_new_tokens {answer} is longer than the {limit}"
            f" positions of {spec.target}.",
            remedy=f"Ask for at most {room}.",
        )
    filler = filler_source(workload, spec.data_dir) if context_length is not None else None
    shaped = shape(items, runner.tokenizer, context_length, filler, spec.design.seed)
    empty = next((prompt.id for prompt in shaped.prompts if not prompt.ids), None)
    if empty is not None:
        raise ConfigError(
            f"workloads: prompt {empty} of {reference} has no tokens.",
            remedy="Look at the prompt and at the tokenizer of the target.",
        )
    longest = max(len(prompt.ids) for prompt in shaped.prompts)
    if room is not None and longest > room:
        raise ConfigError(
            f"workloads: a prompt of {reference} has {longest} tokens; with max_new_tokens {answer} that is over"
            f" the {limit} positions of {spec.target}.",
            remedy=f"Leave out prompts of over {room} tokens, or lower max_new_tokens.",
        )
    return Asked(workload, shaped)
