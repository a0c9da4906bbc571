"""What loops do not tell, read from outside while they run, and nothing in them changed.

transformers gives its streamer each pass's tokens in one piece, first of all the prompt. `Watched` stands around its
candidate generator, and sees what that drafted, and the logits by which the last pass was judged: the loop itself tells
a pass only after its cut at EOS or the limit. `Boundaries` times a loop that has no streamer, by hooks on its models.
"""

import time
from collections.abc import Callable
from typing import Any

from .torch_arm import Passes


class Streamer:
    """Keeps the number of tokens of each piece, and when it came."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.times: list[float] = []

    def put(self, tokens: Any) -> None:
        """Take a piece; it is on the CPU, so it has been computed."""
        self.sizes.append(tokens.numel())
        self.times.append(time.perf_counter())

    def end(self) -> None:
        """Nothing is buffered."""


class Recorded:
    """Notes what a function of `module` returned at its last call: how many drafts a rejection rule kept."""

    def __init__(self, module: Any, name: str, kept: Callable[[Any], Any]) -> None:
        self._module, self._name, self._kept = module, name, kept
        self._said: Any = None

    def __enter__(self) -> "Recorded":
        self._function = function = getattr(self._module, self._name)

        def recorded(*told: Any, **named: Any) -> Any:
            self._said = function(*told, **named)
            return self._said

        setattr(self._module, self._name, recorded)
        return self

    def __exit__(self, *_: object) -> None:
        setattr(self._module, self._name, self._function)

    def last(self) -> int | None:
        """Return how many drafts the last call kept; None if there was none."""
        return None if self._said is None else int(self._kept(self._said))


class Watched:
    """Sees each pass of assisted generation: what was drafted, and the last pass's logits."""

    def __init__(self, target: Any, greedy: bool) -> None:
        self._target, self._greedy = target, greedy
        self._drafted: list[int] = []
        self._candidates: Any = None
        self._logits: Any = None

    def __enter__(self) -> "Watched":
        make = type(self._target)._get_candidate_generator

        def watched(**told: Any) -> Any:
            generator = make(self._target, **told)
            draft, update = generator.get_candidates, generator.update_candidate_strategy

            def get_candidates(input_ids: Any, **more: Any) -> Any:
                candidates, logits = draft(input_ids, **more)
                self._drafted.append(candidates.shape[1] - input_ids.shape[1])
                self._candidates = candidates[0, input_ids.shape[1] :]
                return candidates, logits

            def update_candidate_strategy(input_ids: Any, logits: Any, matches: Any) -> None:
                self._logits = logits[0]
                update(input_ids, logits, matches)

            generator.get_candidates = get_candidates
            generator.update_candidate_strategy = update_candidate_strategy
            return generator

        self._target._get_candidate_generator = watched
        return self

    def __exit__(self, *_: object) -> None:
        del self._target._get_candidate_generator

    def passes(self, sizes: list[int], sampled: Recorded) -> Passes:
        """Return one entry per pass of `sizes` tokens; only the last can have been cut.

        Greedily the last pass is judged again from its logits; by the rejection rule, `sampled` has seen it. Drafts
        without probabilities (`ngram`) are matched with sampled tokens that nothing shows: not told.
        """
        drafted = self._drafted or [0] * len(sizes)
        passes: Passes = [[many, size - 1, size] for many, size in zip(drafted, sizes, strict=True)]
        if drafted[-1]:
            judged = self._logits.argmax(-1)[: drafted[-1]].to(self._candidates.device)
            passes[-1][1] = kept(self._candidates, judged) if self._greedy else sampled.last()
        return passes


class Boundaries:
    """When each step of a loop was over: as soon as it calls a model again after the target's pass, or returns."""

    def __init__(self, target: Any, draft: Any) -> None:
        self._models = [model for model in (draft, target) if hasattr(model, "parameters")]
        self._target = target
        self._open = False
        self.times: list[float] = []
        self._last: tuple[Any, Any] | None = None

    def __enter__(self) -> "Boundaries":
        before = [model.register_forward_pre_hook(self._begins) for model in self._models]
        after = self._target.register_forward_hook(self._verified)
        self._hooks = [*before, after]
        return self

    def __exit__(self, *_: object) -> None:
        self._begins()
        for hook in self._hooks:
            hook.remove()

    def _begins(self, *_: object) -> None:
        if self._open:
            self.times.append(time.perf_counter())
            self._open = False

    def _verified(self, _: Any, inputs: tuple[Any, ...], output: Any) -> None:
        self._open = True
        self._last = (inputs[0], output.logits)

    def last_kept(self) -> int:
        """Return how many drafts the last pass kept, before its cut."""
        assert self._last is not None, "a step was counted"
        block, logits = self._last
        return kept(block[0, 1:], logits[0, :-1].argmax(-1))


def kept(drafts: Any, judged: Any) -> int:
    """Return how many leading drafts are what the target says."""
    return int((drafts == judged).long().cumprod(0).sum())
