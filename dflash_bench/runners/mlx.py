"""MLX: mlx-lm's own generation and its speculative loop, and the authors' DFlash loop (`workers/mlx_worker.py`).

On Apple machines it runs on the GPU (`device: metal`), on Linux on the processor, where a wide verify costs many
single steps, so that a good drafter need not help. `matched: dflash` is plain decoding without the look-ahead that
mlx-lm's own loop has: one pass at a time, the drafter's layers tapped.
"""

from typing import Any

from dflash_bench.errors import ConfigError, did_you_mean
from dflash_bench.plan import PlannedArm
from dflash_bench.runners.recipe import Recipe, load_recipe
from dflash_bench.runners.worker.runner import WorkerRunner
from dflash_bench.spec import Arm, Spec

# The words of mlx-lm's `generate_step`, and of the authors' `stream_generate`, that change how a model runs.
OPTIONS = {
    "ar": {"max_kv_size", "prefill_step_size", "kv_bits", "kv_group_size", "quantized_kv_start"},
    "draft_model": {"prefill_step_size", "kv_bits", "kv_group_size", "quantized_kv_start"},
    "dflash": {"prefill_step_size"},
}
DEVICES = ("cpu", "metal")


def make(spec: Spec, recipe: Recipe | None = None) -> "MlxRunner":
    """Return the runner; `recipe` is a user's own, else ours."""
    return MlxRunner(spec, recipe or load_recipe("mlx"))


class MlxRunner(WorkerRunner):
    """MLX in a worker."""

    library = "mlx-lm"

    def __init__(self, spec: Spec, recipe: Recipe) -> None:
        """Refuse a device that MLX has not."""
        if spec.device not in DEVICES:
            raise ConfigError(
                f"device: '{spec.device}' is not a device of MLX.",
                remedy=f"Use one of: {', '.join(DEVICES)}.",
            )
        super().__init__(spec, recipe)

    def check(self, name: str, arm: Arm) -> None:
        """Refuse options that the loop has not; a matched arm needs the drafter that it is matched to."""
        known = set() if arm.matched else OPTIONS.get(arm.method, set())
        unknown = set(arm.options or {}) - known
        if unknown:
            raise ConfigError(
                f"arms.{name}.options.{min(unknown)}: is not an option of this loop.",
                remedy=did_you_mean(min(unknown), known)
                if known
                else "Remove it: this loop has no options.",
            )
        if arm.matched == "dflash":
            self._drafter(name)

    def settings(self, arm: PlannedArm) -> dict[str, Any]:
        """Name the drafter whose layers a matched arm taps."""
        if arm.settings.get("matched") != "dflash":
            return {}
        return {"draft": str(self._folders[f"dflash {self._drafter(arm.name).draft}"])}

    def _drafter(self, matched: str) -> Arm:
        for arm in self.spec.arms.values():
            if arm.method == "dflash":
                return arm
        raise ConfigError(
            f"arms.{matched}.matched: there is no dflash arm that it could be matched to.",
            remedy="Add one, or remove `matched`.",
        )
