"""SGLang's server: what a recipe's words cannot say of it.

An arm becomes flags (`sglang_drafting.py`); every arm gets the same limits, since SGLang lowers its own to 48 requests
when it speculates. What it says of itself at `/server_info` becomes the facts of a visit (`sglang_facts.py`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dflash_bench.errors import ConfigError
from dflash_bench.plan import Cell, PlannedArm
from dflash_bench.runners import environments
from dflash_bench.runners.base import Opening
from dflash_bench.runners.launch import Launch, Value
from dflash_bench.runners.recipe import Recipe, load_recipe
from dflash_bench.runners.refusals import address, blocks, check_blocks, check_found
from dflash_bench.runners.server.runner import ServerRunner
from dflash_bench.runners.sglang_drafting import check_arm, check_flags, method_words, shape
from dflash_bench.runners.sglang_facts import facts_of
from dflash_bench.spec import Arm, Spec

_SIMULATED = "SGLANG_SIMULATE_ACC_LEN"
_LEAST_KV_TOKENS = 4096
_WIDEST_BLOCK = 32


def make(spec: Spec, recipe: Recipe | None = None) -> "SglangRunner":
    """Return the runner; an arm that SGLang cannot or must not be given is refused."""
    return SglangRunner(spec, recipe or load_recipe("sglang"))


class SglangRunner(ServerRunner):
    """One SGLang server per start of an arm."""

    def __init__(self, spec: Spec, recipe: Recipe) -> None:
        super().__init__(spec, recipe)
        check_found(spec)
        _check_env(spec.server.env)
        check_flags("server.flags", spec.server.flags)
        for name, arm in spec.arms.items():
            if address(spec, arm) is None:
                samples = any(temperature > 0 for temperature in spec.sweep.temperature)
                check_arm(name, arm, _told_blocks(spec, arm), samples)

    def start(self) -> None:
        """Find what is needed; a block that a DFlash drafter was not trained for is refused."""
        super().start()
        check_blocks(self.spec, self._drafts)

    def refuse(self, arm: PlannedArm, cell: Cell) -> str | None:
        """Speculation is for GPUs, and penalties are not exact under it."""
        if arm.method == "ar":
            return None
        if self.base_url(arm) is None and self._is_without(arm.method):
            if arm.method == "dflash":
                # ValueError of _handle_dflash in arg_groups/speculative_hook.py
                return (
                    "method dflash: DFLASH speculative decoding is not supported by SGLang on a CPU"
                )
            return f"method {arm.method}: variant cpu is SGLang's base server; drafting wants variant cuda"
        sampling = self.spec.sampling
        subtracted = sampling.presence_penalty or sampling.frequency_penalty
        if subtracted or sampling.repetition_penalty != 1.0:
            return (
                "sampling: SGLang's penalties do not count the tokens of the block that is verified, so the texts would"
                " not be those of plain decoding"
            )
        return None

    def values(self, arm: PlannedArm, opening: Opening) -> Mapping[str, Value]:
        """Return `{max_running_requests}`, `{kv_tokens}`, and the shape `{num_steps}`, `{eagle_topk}`."""
        most = max(self.spec.sweep.batch_size)
        return {
            "max_running_requests": most,
            "kv_tokens": self._kv_tokens(most, opening),
            **shape(arm),
        }

    def command(self, arm: PlannedArm, opening: Opening, port: int) -> Launch:
        """Return the recipe's command with the arm's rule and options behind the method's flags."""
        words = super().command(arm, opening, port)
        return replace(words, argv=(*words.argv, *method_words(arm, self._rejects(arm))))

    def config_facts(self, config: Any) -> dict[str, Any]:
        """Return the facts of a visit from `/server_info`."""
        return facts_of(config)

    def _rejects(self, arm: PlannedArm) -> bool:
        """Tell whether the user, and not only the plan's label, wants `arm` verified by rejection."""
        told = self.spec.arms.get(arm.name) or self.spec.arms.get(
            arm.name.removesuffix(f"-b{arm.block_size}")
        )
        return told is not None and told.verify == "reject"

    def _is_without(self, method: str) -> bool:
        """Tell whether the variant that is installed lacks `method`."""
        found, start = environments.environment_of(self.recipe), self.recipe.start
        extra = start.variants.get(found.variant) if found and start else None
        return extra is not None and method in extra.without

    def _kv_tokens(self, requests: int, opening: Opening) -> int | None:
        """Return the tokens that a cache must hold, the same in all arms: two blocks are kept ahead of each request."""
        if not opening.positions:
            return None
        widest = [
            max(_told_blocks(self.spec, arm), default=_WIDEST_BLOCK)
            for arm in self.spec.arms.values()
            if arm.method != "ar"
        ]
        room = 2 * max(widest, default=0)
        return max(requests * (opening.positions + room), _LEAST_KV_TOKENS)


def _check_env(env: Mapping[str, str]) -> None:
    if _SIMULATED in env:
        raise ConfigError(
            f"server.env.{_SIMULATED}: makes SGLang pretend that drafts were accepted: its texts are not the target's.",
            remedy="Remove it.",
        )


def _told_blocks(spec: Spec, arm: Arm) -> list[int]:
    """Return the block sizes at which `arm` is planned; none where SGLang chooses."""
    return [block for block in blocks(spec, arm) if block is not None]
