"""Tiny models with random weights, and drafters made to measure: built in milliseconds, on any CPU."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from dflash_bench.engine.draft import Anchors, Draft
from dflash_bench.engine.loop import Admitted, Verifier, generate
from dflash_bench.engine.methods.base import Committed, Drafter
from dflash_bench.engine.methods.dflash import DFlashDrafter
from dflash_bench.engine.methods.dflash_config import DFlashConfig
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.engine.request import Request
from dflash_bench.engine.sampling import Sampling
from dflash_bench.engine.target import Target
from dflash_bench.engine.verify import Rule

VOCAB, MASK = 64, 3
GREEDY = Sampling()


def build_model(family: str = "qwen3", seed: int = 0) -> Any:
    """Return a Hugging Face causal LM of 4 layers, hidden size 32, vocabulary 64.

    The weights are drawn wide, so that the next token depends on the whole context and argmaxes are
    never near-ties; the default initialisation would make the model repeat itself.
    """
    shape: dict[str, Any] = {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 256,
        "initializer_range": 0.4,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    torch.manual_seed(seed)
    if family == "llama":
        return LlamaForCausalLM(LlamaConfig(**shape))
    return Qwen3ForCausalLM(Qwen3Config(**shape))


def build_target(family: str = "qwen3", seed: int = 0) -> Target:
    return Target.from_model(build_model(family, seed))


def dflash_config(**changes: Any) -> DFlashConfig:
    shape: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "vocab_size": VOCAB,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "block_size": 8,
        "mask_token_id": MASK,
        "target_layer_ids": (0, 1, 2),
        "num_target_layers": 4,
    }
    return DFlashConfig(**{**shape, **changes})


def build_dflash(target: Target, block_size: int = 8, seed: int = 1) -> DFlashDrafter:
    torch.manual_seed(seed)
    return DFlashDrafter(DFlashModel(dflash_config()).eval(), target, block_size)


def build_requests(count: int, max_new_tokens: int = 24, seed: int = 0) -> list[Request]:
    """Return requests with prompts of 1 to 15 tokens, each with a noise key of its own."""
    random = torch.Generator().manual_seed(seed)
    prompts = [
        torch.randint(VOCAB, (1 + (7 * i) % 15,), generator=random).tolist() for i in range(count)
    ]
    return [
        Request(f"r{i}", tuple(prompt), max_new_tokens, frozenset(), key=100 + i)
        for i, prompt in enumerate(prompts)
    ]


def outputs(
    target: Verifier,
    drafter: Drafter,
    requests: Sequence[Request],
    batch_size: int = 1,
    sampling: Sampling = GREEDY,
    rule: Rule = "match",
) -> dict[str, list[int]]:
    """Run the loop and return each request's output tokens, in the order of finishing."""
    texts: dict[str, list[int]] = {}
    finished: dict[str, list[int]] = {}
    for event in generate(
        target, drafter, requests, batch_size=batch_size, sampling=sampling, rule=rule
    ):
        if isinstance(event, Admitted):
            texts[event.request_id] = [event.first_token]
            ended = [event.request_id] if event.finished else []
        else:
            for row in event.rows:
                texts[row.request_id] += row.tokens
            ended = [row.request_id for row in event.rows if row.finished]
        finished |= {name: texts[name] for name in ended}
    return finished


class OracleDrafter:
    """Knows what AR will say, and drafts it, but for the errors that `script` demands.

    For every drafted token the script is asked: None drafts the truth, a number drafts that
    token. So every pattern of acceptance can be had from a target of any quality. `counts`, if
    given, says how many drafts each row of each step offers; `trees`, which parents its drafts
    have (block_size - 1 of them each). A token that an elder sibling has makes way for another.
    """

    name = "oracle"
    taps: tuple[int, ...] = ()

    def __init__(
        self,
        texts: Mapping[tuple[int, ...], Sequence[int]],
        block_size: int,
        script: Iterable[int | None] = (None,),
        counts: Iterable[int] | None = None,
        trees: Iterable[Sequence[int]] | None = None,
    ) -> None:
        self.block_size = block_size
        self._texts = texts
        self._script = cycle(script)
        self._counts = None if counts is None else cycle(counts)
        self._trees = None if trees is None else cycle(trees)
        self._prompts: dict[int, tuple[int, ...]] = {}

    def reserve(self, rows: int, max_length: int) -> None:
        self._prompts.clear()

    def admit(self, row: int, tokens: Sequence[int], features: Tensor) -> None:
        self._prompts[row] = tuple(tokens[:-1])

    def draft_block(self, anchors: Anchors) -> Draft:
        chain = range(self.block_size - 1)
        parents = [chain if self._trees is None else next(self._trees) for _ in anchors.lengths]
        rows = [
            self._draft_row(row, length, parents[row]) for row, length in enumerate(anchors.lengths)
        ]
        return Draft(
            torch.tensor(rows).view(len(rows), -1),
            None if self._trees is None else torch.tensor([list(each) for each in parents]),
            None if self._counts is None else torch.tensor([next(self._counts) for _ in rows]),
        )

    def commit(self, committed: Committed) -> None: ...

    def move_row(self, source: int, destination: int) -> None:
        self._prompts[destination] = self._prompts[source]

    def _draft_row(self, row: int, length: int, parents: Sequence[int]) -> list[int]:
        prompt = self._prompts[row]
        start = length - len(prompt) + 1
        truth = [*self._texts[prompt][start : start + self.block_size - 1], *[0] * self.block_size]
        depths, tokens, taken = [0], list[int](), set[tuple[int, int]]()
        for parent in parents:
            wanted = next(self._script)
            token = truth[depths[parent]] if wanted is None else wanted
            while (parent, token) in taken:
                token = (token + 1) % VOCAB
            taken.add((parent, token))
            tokens.append(token)
            depths.append(depths[parent] + 1)
        return tokens


def texts_by_prompt(
    requests: Sequence[Request], texts: Mapping[str, Sequence[int]]
) -> dict[tuple[int, ...], Sequence[int]]:
    return {request.prompt: texts[request.id] for request in requests}
