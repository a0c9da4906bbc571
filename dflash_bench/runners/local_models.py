"""What every runner has of its models: their folders by role, the target's tokenizer, and what the manifest says."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dflash_bench.runners.folders import hashes, max_positions

if TYPE_CHECKING:
    from dflash_bench.runners.tokenizer import TargetTokenizer


class LocalModels:
    """The part of the protocol of `base.py` that runners share; `start` fills `_folders` and `_tokenizer`."""

    _folders: dict[str, Path]
    _tokenizer: "TargetTokenizer"

    @property
    def tokenizer(self) -> "TargetTokenizer":
        """The target's tokenizer."""
        return self._tokenizer

    @property
    def max_positions(self) -> int | None:
        """The longest sequence that the target's config.json allows, in tokens."""
        return max_positions(self._folders["target"])

    def models(self) -> dict[str, dict[str, Any]]:
        """Return the folder and the file hashes of the target and of each drafter that is here."""
        return {
            role: {"folder": str(folder), "sha256": hashes(folder)}
            for role, folder in self._folders.items()
        }
