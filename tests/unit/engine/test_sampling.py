"""Choosing tokens: the argmax, and noise that depends on nothing but its place."""

import math

import torch

from dflash_bench.engine.sampling import Sampling, choose, uniform


def test_temperature_zero_takes_the_argmax() -> None:
    logits = torch.tensor([[[0.0, 2.0, 1.0], [3.0, 2.0, 1.0]]])
    places = torch.zeros(1, 2, dtype=torch.int64)
    assert choose(logits, places, places[:, 0], Sampling()).tolist() == [[1, 0]]


def test_noise_lies_strictly_between_0_and_1_and_is_uniform() -> None:
    places = torch.arange(200).view(2, 100)
    noise = uniform(places, torch.tensor([1, 2]), seed=3, vocab_size=500)  # 100,000 values
    assert noise.min() > 0.0
    assert noise.max() < 1.0
    # The mean of 100,000 uniforms has a standard deviation of 0.0009, the count in a tenth one of
    # 95. Eleven bounds of 5.5 standard deviations (4e-8 each) fail by chance once in two million.
    assert abs(noise.mean() - 0.5) < 0.005
    tenths = torch.histc(noise.flatten(), bins=10, min=0.0, max=1.0)
    assert (tenths - 10_000).abs().max() < 525


def test_noise_differs_between_seeds_keys_positions_and_tokens() -> None:
    places, keys = torch.arange(50).view(1, 50).repeat(2, 1), torch.tensor([0, 1])
    both = torch.stack([uniform(places, keys, seed, vocab_size=64) for seed in (0, 1)])
    assert len(set(both.flatten().tolist())) == both.numel()


def test_noise_at_a_place_is_the_same_in_any_batch_and_block() -> None:
    places = torch.tensor([[5, 6, 7], [9, 10, 11]])
    keys = torch.tensor([40, 41])
    together = uniform(places, keys, seed=2**63 + 1, vocab_size=16)
    for row in range(2):
        for slot in range(3):
            alone = uniform(
                places[row : row + 1, slot : slot + 1], keys[row : row + 1], 2**63 + 1, 16
            )
            assert torch.equal(alone[0, 0], together[row, slot])


def test_noise_does_not_change_between_versions() -> None:
    noise = uniform(torch.tensor([[7]]), torch.tensor([11]), seed=13, vocab_size=3)
    expected = [_splitmix_uniform(seed=13, key=11, position=7, token=token) for token in range(3)]
    assert noise.flatten().tolist() == expected


def test_samples_follow_the_softmax_at_the_temperature() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, 0.5])
    law = torch.softmax(logits.double() / 0.7, -1)
    num = 20_000
    places = torch.arange(num).view(1, num)
    tokens = choose(
        logits.expand(1, num, 5), places, torch.tensor([4]), Sampling(temperature=0.7, seed=9)
    )
    frequencies = torch.bincount(tokens.flatten(), minlength=5) / num
    # A frequency has a standard deviation of sqrt(p (1 - p) / num) <= 0.00354. Five tokens within
    # 6 of them: by the normal tail 2 * 1e-9 each, chance fails this once in 10^8 (were it not
    # seeded).
    bounds = 6 * (law * (1 - law) / num).sqrt()
    assert ((frequencies - law).abs() < bounds).all()


def _splitmix_uniform(seed: int, key: int, position: int, token: int) -> float:
    """Compute one value of the noise in plain Python, where integers do not wrap."""
    mask, gamma = 2**64 - 1, 0x9E3779B97F4A7C15

    def mix(x: int) -> int:
        x &= mask
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & mask
        x = (x ^ x >> 27) * 0x94D049BB133111EB & mask
        return x ^ x >> 31

    stream = mix(mix(key + seed * gamma) + position * gamma)
    return math.ldexp((mix(stream + (token + 1) * gamma) >> 12) + 0.5, -52)
