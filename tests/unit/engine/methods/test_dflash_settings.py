"""An arm's settings against what a checkpoint was trained for."""

from typing import Any

import pytest

from dflash_bench.engine.methods.dflash_settings import DFlashSettings, choose_block_size
from dflash_bench.errors import ConfigError
from tests.unit.engine.methods.tiny_dflash import SECOND
from tests.unit.engine.tiny import dflash_config

MASKS, NOISE = dflash_config(), dflash_config(noise_scale=0.1)


def test_a_block_is_at_most_as_wide_as_it_was_trained() -> None:
    assert choose_block_size(MASKS, None) == 8
    assert choose_block_size(MASKS, 2) == 2
    assert choose_block_size(dflash_config(sample_from_anchor=True), None) == 9
    for asked in (-1, 0, 1, 9):
        with pytest.raises(ConfigError, match=rf"block_size {asked} is outside 2\.\.8"):
            choose_block_size(MASKS, asked)


def test_what_is_not_said_is_the_checkpoints() -> None:
    assert DFlashSettings.of({}, MASKS) == DFlashSettings(8)
    none = {"verify_length": None, "denoise_steps": None, "noise": None, "noise_schedule": None}
    assert DFlashSettings.of(none, MASKS) == DFlashSettings(8)


def test_what_is_said_is_taken() -> None:
    said = {"block_size": 6, "verify_length": 4, "denoise_steps": 5, "noise": "mask"}
    assert DFlashSettings.of(said, MASKS) == DFlashSettings(6, 4, 5)
    noise = {"noise": "gaussian", "noise_schedule": "linear", "denoise_steps": 20}
    assert DFlashSettings.of(noise, NOISE) == DFlashSettings(8, None, 20, "linear")
    one = dflash_config(second=SECOND)
    assert DFlashSettings.of({"denoise_steps": 1}, one).denoise_steps == 1


@pytest.mark.parametrize(
    ("config", "settings", "reason"),
    [
        (MASKS, {"block_size": "8"}, "block_size is '8'"),
        (MASKS, {"verify_length": True}, "verify_length is True"),
        (MASKS, {"verify_length": 1}, r"verify_length 1 is outside 2..8"),
        (MASKS, {"block_size": 4, "verify_length": 5}, r"verify_length 5 is outside 2..4"),
        (MASKS, {"denoise_steps": 0}, r"denoise_steps 0 is outside 1..7"),
        (MASKS, {"block_size": 4, "denoise_steps": 4}, r"denoise_steps 4 is outside 1..3"),
        (NOISE, {"noise": "gaussian", "denoise_steps": 65}, r"denoise_steps 65 is outside 1..64"),
        (dflash_config(second=SECOND), {"denoise_steps": 2}, "DFlash2's selector"),
        (dflash_config(sample_from_anchor=True), {"denoise_steps": 2}, "samples from its anchor"),
        (MASKS, {"noise": "salt"}, "noise is 'salt'"),
        (MASKS, {"noise_schedule": "cosine"}, "masks have no schedule"),
        (NOISE, {"noise": "gaussian", "noise_schedule": "sudden"}, "noise_schedule is 'sudden'"),
    ],
)
def test_what_does_not_fit_is_refused(
    config: Any, settings: dict[str, object], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        DFlashSettings.of(settings, config)


@pytest.mark.parametrize(
    ("config", "settings", "remedy"),
    [
        (MASKS, {"noise": "gaussian"}, "Write noise: mask"),
        (NOISE, {"noise": "mask"}, "Write noise: gaussian"),
        (NOISE, {}, "Write noise: gaussian"),
    ],
)
def test_an_arm_and_its_checkpoint_agree_about_the_noise(
    config: Any, settings: dict[str, object], remedy: str
) -> None:
    with pytest.raises(ConfigError, match="the drafter was trained on") as caught:
        DFlashSettings.of(settings, config)
    assert remedy in caught.value.remedy
