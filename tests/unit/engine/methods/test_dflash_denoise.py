"""Several passes over a block: what is kept, what is asked anew, and how loud the noise is."""

import math

import pytest
import torch
from torch import Tensor

from dflash_bench.engine.methods.dflash_denoise import from_noise, unmask
from dflash_bench.engine.methods.dflash_noise import amplitudes, gaussian, mix, times

MASK = 9


class Oracle:
    """A network of ten tokens that is surest of the slots in `order`, and counts what it is shown."""

    def __init__(self, order: list[int]) -> None:
        self.order = order
        self.shown: list[list[int]] = []

    def __call__(self, block: Tensor) -> Tensor:
        """Say slot s is token s + the number of the pass, the surer the earlier s stands in `order`."""
        self.shown.append(block[0].tolist())
        logits = torch.zeros(1, len(self.order), 10)
        for rank, slot in enumerate(self.order):
            logits[0, slot, (slot + len(self.shown)) % MASK] = 10.0 - rank
        return logits


def test_one_step_fills_all() -> None:
    oracle = Oracle([2, 0, 1])
    assert unmask(oracle, torch.clone, torch.tensor([[7, MASK, MASK, MASK]]), 1).tolist() == [
        [1, 2, 3]
    ]
    assert oracle.shown == [[7, MASK, MASK, MASK]]


def test_the_surest_are_kept_and_the_rest_is_asked_again() -> None:
    oracle = Oracle([2, 0, 3, 1])
    block = torch.tensor([[7, MASK, MASK, MASK, MASK]])
    drafts = unmask(oracle, torch.clone, block, steps=3)
    # Shares 2, 3 and 4 of 4. What was kept keeps the token of the pass that it was kept in.
    assert oracle.shown == [
        [7, MASK, MASK, MASK, MASK],
        [7, 1, MASK, 3, MASK],
        [7, 1, MASK, 3, 5],
    ]
    assert drafts.tolist() == [[1, 4, 3, 5]]


def test_times_go_from_noise_to_text() -> None:
    assert times(4) == [1.0, 0.75, 0.5, 0.25]


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_signal_and_noise_share_one_energy(schedule: str) -> None:
    time = torch.linspace(0, 1, 11)
    levels = amplitudes("cosine" if schedule == "cosine" else "linear", time)
    torch.testing.assert_close(levels.square().sum(-1), torch.ones(11))
    torch.testing.assert_close(levels[0], torch.tensor([1.0, 0.0]))
    torch.testing.assert_close(levels[-1], torch.tensor([0.0, 1.0]), atol=1e-6, rtol=0)
    middle = math.sqrt(0.5)
    torch.testing.assert_close(levels[5], torch.tensor([middle, middle]))


def test_the_two_schedules_differ_off_the_middle() -> None:
    time = torch.tensor(0.25)
    assert amplitudes("cosine", time)[0] == pytest.approx(math.cos(math.pi / 8))
    assert amplitudes("linear", time)[0] == pytest.approx(math.sqrt(0.75))


def test_noise_is_standard_normal_and_a_function_of_its_place() -> None:
    positions, keys = torch.arange(40).repeat(2, 1), torch.tensor([5, 6])
    noise = gaussian(positions, keys, 0, 64)
    assert noise.shape == (2, 40, 64)
    assert abs(noise.mean().item()) < 0.05
    assert abs(noise.std().item() - 1) < 0.05
    assert noise.abs().max() < 6
    alone = gaussian(positions[1:, 7:9], keys[1:], 0, 64)
    assert torch.equal(alone, noise[1:, 7:9])
    for other in (
        gaussian(positions, keys, 1, 64),
        gaussian(positions + 1, keys, 0, 64),
        gaussian(positions, keys + 2, 0, 64),
    ):
        # Correlations of 5,120 independent pairs stay within 0.06 by four standard deviations.
        assert abs((noise * other).mean().item()) < 0.06


def test_each_step_mixes_what_the_last_one_said_with_its_own_noise() -> None:
    """Two steps, written out: embeddings are unit vectors, and the network says token 2 at once."""
    table, seen = torch.eye(4), list[Tensor]()
    anchor = table[1][None, None]
    direction = torch.tensor([[0.1, 0.0], [0.0, 0.2], [0.0, 0.0], [0.0, 0.0]])

    def predict(block: Tensor) -> Tensor:
        seen.append(block)
        return 50.0 * table[2].expand(1, 2, 4)  # so sure that the expected embedding is token 2's

    drafts = from_noise(
        predict,
        anchor,
        noise=lambda step: torch.full((1, 2, 4), float(step + 1)),
        level=lambda levels: levels @ direction.T,
        table=table,
        scale=0.5,
        schedule="cosine",
        steps=2,
    )
    assert drafts.tolist() == [[2, 2]]
    half = math.sqrt(0.5)
    told = torch.tensor([0.1, 0.0, 0.0, 0.0])
    for block in seen:  # the anchor is text in every step
        torch.testing.assert_close(block[0, 0], anchor[0, 0] + told)
    first = torch.full((4,), 0.5) + torch.tensor([0.0, 0.2, 0.0, 0.0])
    torch.testing.assert_close(seen[0][0, 1], first, atol=1e-6, rtol=0)
    second = half * table[2] + half * 0.5 * 2 + torch.tensor([0.1 * half, 0.2 * half, 0.0, 0.0])
    torch.testing.assert_close(seen[1][0, 2], second, atol=1e-6, rtol=0)


def test_the_mix_is_elementwise() -> None:
    clean, noise = torch.ones(2, 3), 2 * torch.ones(2, 3)
    levels = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    expected = torch.tensor([[1.0] * 3, [0.6 + 0.8 * 0.5 * 2] * 3])
    torch.testing.assert_close(mix(clean, noise, levels, 0.5), expected)
