"""From logits to tokens: the argmax, or a sample whose noise depends on nothing but its place.

A token is drawn by the Gumbel-max trick: the argmax of log-probability plus independent Gumbel noise
has the very law of these probabilities (Gumbel 1954; Maddison et al., arXiv:1411.0030). The noise is
*counter-based* (`noise`), so that AR and every drafter give one and the same text.

The law is the softmax of logits / temperature, cut to the `top_k` most probable tokens, and of these to
the fewest that together have `top_p` of what is left: the order of transformers' warpers and of vLLM's
sampler. Penalties come before all of that, and before the argmax as well; see `penalties`.
"""

from dataclasses import dataclass

from torch import Tensor

from dflash_bench.engine.noise import DRAFT, gumbel
from dflash_bench.errors import ConfigError


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen; temperature 0 is greedy, where seed, top_k and top_p have no effect.

    top_k 0 and top_p 1 cut nothing; repetition 1, presence 0 and frequency 0 penalise nothing.
    """

    temperature: float = 0.0
    seed: int = 0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no law, with a ConfigError."""
        for name, fits, expected in (
            ("temperature", 0.0 <= self.temperature < float("inf"), "0 or above"),
            ("top_k", self.top_k >= 0, "a number of tokens, or 0 for all"),
            ("top_p", 0.0 < self.top_p <= 1.0, "above 0 and at most 1"),
            ("repetition_penalty", 0.0 < self.repetition_penalty < float("inf"), "above 0"),
        ):
            if not fits:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}.", remedy=f"It must be {expected}."
                )


def choose(logits: Tensor, positions: Tensor, keys: Tensor, sampling: Sampling) -> Tensor:
    """Choose one token from each row of logits.

    logits     [B, K, V]
    positions  [B, K] int64, where in its sequence the chosen token will stand
    keys       [B] int64, the requests' noise counters

    Returns tokens [B, K] int64.
    """
    if sampling.temperature == 0.0:
        return logits.argmax(-1)
    noise = gumbel(positions, keys, sampling.seed, logits.shape[-1])
    return noise.add_(scores(logits, sampling)).argmax(-1)


def propose(
    logits: Tensor, positions: Tensor, keys: Tensor, sampling: Sampling
) -> tuple[Tensor, Tensor]:
    """Draw draft tokens [B, K] from their own law, and return that law, float64 [B, K, V], as well.

    Shapes as in `choose`; the noise is of another stream than the target's.
    """
    scored = scores(logits, sampling)
    noise = gumbel(positions, keys, sampling.seed, logits.shape[-1], DRAFT)
    return noise.add_(scored).argmax(-1), scored.softmax(-1)


def draw(laws: Tensor, positions: Tensor, keys: Tensor, seed: int) -> Tensor:
    """Draw one token [B] from each of `laws` [B, V], with the noise that `choose` has at `positions` [B, 1]."""
    noise = gumbel(positions, keys, seed, laws.shape[-1])[:, 0]
    return noise.add_(laws.log()).argmax(-1)


def law(logits: Tensor, sampling: Sampling) -> Tensor:
    """Return the probabilities, float64 of the shape of `logits`, from which `choose` draws at temperature > 0."""
    return scores(logits, sampling).softmax(-1)


def scores(logits: Tensor, sampling: Sampling) -> Tensor:
    """Return logits / temperature in float64, and -inf for what top-k and top-p cut off.

    What is as probable as the last token that is kept, is kept too: no order of equals decides.
    """
    found = logits.double() / sampling.temperature
    if 0 < sampling.top_k < found.shape[-1]:
        least = found.topk(sampling.top_k, sorted=False).values.amin(-1, keepdim=True)
        found = found.masked_fill(found < least, float("-inf"))
    if sampling.top_p < 1.0:
        probs = found.softmax(-1)
        ordered = probs.sort(-1, descending=True).values
        # A token stays while those before it have less than top_p; the first has none before it.
        num_before = (ordered.cumsum(-1)[..., :-1] < sampling.top_p).sum(-1, keepdim=True)
        found = found.masked_fill(probs < ordered.gather(-1, num_before), float("-inf"))
    return found
