"""Choosing tokens: the argmax, and noise that depends on nothing but its place."""

import math
from typing import Any

import pytest
import torch
from transformers import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from dflash_bench.engine.noise import ACCEPT, DRAFT, TARGET, uniform, uniform_of
from dflash_bench.engine.sampling import Sampling, choose, draw, law, propose, scores
from dflash_bench.errors import ConfigError


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


def test_streams_are_independent() -> None:
    places, keys = torch.arange(100)[None], torch.tensor([5])
    streams = [uniform(places, keys, 0, 50, each).flatten() for each in (TARGET, DRAFT, ACCEPT)]
    # A correlation of 5,000 independent pairs has a standard deviation of 0.014.
    assert (torch.corrcoef(torch.stack(streams)) - torch.eye(3)).abs().max() < 0.08


def test_the_noise_of_single_tokens_is_that_of_the_whole_vocabulary() -> None:
    places, keys = torch.tensor([[3, 4], [7, 8]]), torch.tensor([1, 2])
    tokens = torch.tensor([[[5, 0], [2, 2]], [[9, 1], [0, 8]]])
    whole = uniform(places, keys, seed=6, vocab_size=10, purpose=ACCEPT)
    assert torch.equal(uniform_of(tokens, places, keys, 6, ACCEPT), whole.gather(2, tokens))


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(1.0, 0, 1.0), (0.7, 5, 1.0), (1.3, 0, 0.6), (0.8, 12, 0.9)]
)
def test_the_law_is_that_of_transformers_warpers(
    temperature: float, top_k: int, top_p: float
) -> None:
    logits = torch.randn(40, 30, generator=torch.Generator().manual_seed(0)) * 3
    warpers = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    if top_k:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p < 1.0:
        warpers.append(TopPLogitsWarper(top_p))
    ids: Any = torch.zeros(40, 1, dtype=torch.int64)
    expected = warpers(ids, logits).softmax(-1)
    found = law(logits[:, None], Sampling(temperature, top_k=top_k, top_p=top_p))[:, 0]
    assert torch.equal(found > 0, expected > 0)
    torch.testing.assert_close(found.float(), expected)


def test_equals_at_the_edge_are_kept_together() -> None:
    logits = torch.tensor([2.0, 1.0, 1.0, 1.0, 0.0])
    for sampling in (Sampling(1.0, top_k=2), Sampling(1.0, top_p=0.5)):
        for order in ([0, 1, 2, 3, 4], [3, 4, 1, 0, 2]):
            kept = scores(logits[order], sampling).isfinite()
            assert kept.tolist() == (logits[order] > 0).tolist()


def test_one_token_is_always_kept() -> None:
    logits = torch.tensor([0.0, 3.0, 1.0])
    for sampling in (Sampling(1.0, top_k=1), Sampling(1.0, top_p=1e-9)):
        assert law(logits, sampling).tolist() == [0.0, 1.0, 0.0]


def test_only_what_is_kept_is_chosen_drafted_and_drawn() -> None:
    logits = torch.randn(1, 500, 20, generator=torch.Generator().manual_seed(2))
    places, keys = torch.arange(500)[None], torch.tensor([3])
    sampling = Sampling(1.0, seed=1, top_k=4, top_p=0.8)
    allowed = scores(logits, sampling).isfinite()
    chosen, (drafted, probs) = (
        choose(logits, places, keys, sampling),
        propose(logits, places, keys, sampling),
    )
    for tokens in (chosen, drafted):
        assert allowed.gather(2, tokens[..., None]).all()
    assert torch.equal(probs, law(logits, sampling))
    assert not torch.equal(chosen, drafted), "drafts have noise of their own"
    drawn = draw(probs[0], places.T, keys.expand(500), seed=1)
    assert torch.equal(drawn, chosen[0])


def test_greedy_choice_ignores_what_cuts_the_law() -> None:
    logits = torch.tensor([[[0.0, 2.0, 1.0]]])
    place = torch.zeros(1, 1, dtype=torch.int64)
    assert choose(logits, place, place[0], Sampling(0.0, top_k=1, top_p=0.1)).tolist() == [[1]]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0"),
    ],
)
def test_what_is_no_law_is_refused(settings: dict[str, float], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Sampling(**settings)  # type: ignore[arg-type]


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
