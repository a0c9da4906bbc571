"""What an arm may ask of a DFlash drafter, judged against what its checkpoint was trained for."""

from collections.abc import Mapping
from dataclasses import dataclass

from dflash_bench.engine.methods.dflash_noise import SCHEDULES, Schedule
from dflash_bench.engine.methods.dflash_shape import DFlashConfig
from dflash_bench.errors import ConfigError

MOST_NOISE_STEPS = 64


@dataclass(frozen=True)
class DFlashSettings:
    """An arm's settings, settled; see `DFlashDrafter`."""

    block_size: int
    verify_length: int | None = None
    denoise_steps: int | None = None
    noise_schedule: Schedule = "cosine"

    @classmethod
    def of(cls, settings: Mapping[str, object], config: DFlashConfig) -> "DFlashSettings":
        """Read an arm's settings; raises ConfigError for one that the checkpoint cannot follow."""
        block_size = choose_block_size(config, _integer(settings, "block_size"))
        length = _integer(settings, "verify_length")
        if length is not None and not 2 <= length <= block_size:
            raise ConfigError(
                f"verify_length {length} is outside 2..{block_size}, the block's own size.",
                remedy=f"Choose from 2 to {block_size}; the anchor token is counted.",
            )
        _check_noise(settings, config)
        return cls(block_size, length, _steps(settings, config, block_size), _schedule(settings))


def choose_block_size(config: DFlashConfig, asked: int | None) -> int:
    """Return the block size to draft with: the one asked for, or else the one trained.

    A drafter trained at 16 drafts well at 8; the other way round it does not (arXiv:2602.06036).
    Raises ConfigError below 2 (nothing is drafted) and above the checkpoint's (never trained).
    """
    most = config.max_nodes
    if asked is None:
        return most
    if not 2 <= asked <= most:
        raise ConfigError(
            f"block_size {asked} is outside 2..{most}, the drafter's own block size.",
            remedy=f"Choose from 2 to {most}; a block size counts the anchor token.",
        )
    return asked


def _check_noise(settings: Mapping[str, object], config: DFlashConfig) -> None:
    """Refuse an arm that wants another noise than the checkpoint was trained on."""
    asked = settings.get("noise") or "mask"
    trained = "mask" if config.noise_scale is None else "gaussian"
    if asked not in ("mask", "gaussian"):
        raise ConfigError(f"noise is {asked!r}.", remedy="It must be mask or gaussian.")
    if asked != trained:
        raise ConfigError(
            f"noise is '{asked}', and the drafter was trained on '{trained}'.",
            remedy=f"Write noise: {trained}, or name a drafter that was trained on {asked}.",
        )


def _steps(settings: Mapping[str, object], config: DFlashConfig, block_size: int) -> int | None:
    steps = _integer(settings, "denoise_steps")
    if steps is None:
        return None
    masks = config.noise_scale is None
    if steps > 1 and (config.second is not None or config.sample_from_anchor):
        kind = "DFlash2's selector" if config.second else "a drafter that samples from its anchor"
        raise ConfigError(
            f"denoise_steps is {steps}, and {kind} was made for one pass.",
            remedy="Write denoise_steps: 1, or leave it out.",
        )
    most = block_size - 1 if masks else MOST_NOISE_STEPS
    if not 1 <= steps <= most:
        why = "each step keeps one more token at least" if masks else "more change nothing"
        raise ConfigError(
            f"denoise_steps {steps} is outside 1..{most}: {why}.",
            remedy=f"Choose from 1 to {most}.",
        )
    return steps


def _schedule(settings: Mapping[str, object]) -> Schedule:
    asked = settings.get("noise_schedule")
    if asked is None:
        return "cosine"
    if settings.get("noise") != "gaussian":
        raise ConfigError(
            f"noise_schedule is {asked!r}, and masks have no schedule of noise.",
            remedy="Remove the key, or write noise: gaussian with a drafter that was trained on it.",
        )
    for schedule in SCHEDULES:
        if asked == schedule:
            return schedule
    raise ConfigError(
        f"noise_schedule is {asked!r}.", remedy=f"It must be one of {', '.join(SCHEDULES)}."
    )


def _integer(settings: Mapping[str, object], key: str) -> int | None:
    value = settings.get(key)
    if value is not None and type(value) is not int:
        raise ConfigError(f"{key} is {value!r}.", remedy="It must be an integer.")
    return value
