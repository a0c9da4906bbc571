"""Train the lab's EAGLE-3 drafter: one layer that continues three taps of the frozen target.

The recipe is the paper's *training-time test* (arXiv:2503.01840, section 3) made small. Step 0 sees the
target's features; every further step goes on with the features that the step before put out, as
drafting will, so that the drafter learns to live on what it made itself. The target's law is the label,
what lies outside the draft vocabulary left out. What is ours is the start: most of a late layer
copied, `fc` the mean of the taps.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import Qwen3ForCausalLM

from dflash_bench.engine.methods.eagle3_model import Eagle3Config, Eagle3Model
from dflash_bench.engine.network import FINAL_NORM
from dflash_bench.engine.target import Target
from dflash_bench.lab.outputs import Output
from dflash_bench.lab.training import Progress, Schedule, by_length, run

SEED = 23
STEPS = 2400
WARM_UP_STEPS = 100
LEARNING_RATE = 3e-3
BATCH_SIZE = 8
TEST_STEPS = 6  # of the training-time test: tokens that a training step drafts from each position
DECAY = 0.8  # the weight of a step's loss against the one before it
DRAFT_VOCAB_SIZE = 512
COPIED_LAYER = 5
NOISE = 0.02
CHECKPOINT_EVERY = 250


class Example(NamedTuple):
    """One sequence: ids [T], where its output starts, and of the target, in bf16: features and final hidden.

    `final` [T, H] is what the target's output head reads: the law of the token after each.
    """

    ids: Tensor
    start: int
    features: Tensor
    final: Tensor


class Rows(NamedTuple):
    """One batch: S tokens, of which N entries per row are drafted from.

    tokens    [B, S + TEST_STEPS] int64
    features  [B, S, 3*H]
    final     [B, S + TEST_STEPS, H]
    entries   [B, N] int64, the entries that say the second token of the output, the third, ...
    last      [B, 1] int64, the last entry whose next token but one is still in the text
    """

    tokens: Tensor
    features: Tensor
    final: Tensor
    entries: Tensor
    last: Tensor


def config_for(target: Qwen3ForCausalLM, draft_vocab_size: int = DRAFT_VOCAB_SIZE) -> Eagle3Config:
    """Return the drafter's shape: the target's width, one layer, a reduced vocabulary."""
    shape: Any = target.config  # its optional fields are all set in a loaded model
    return Eagle3Config(
        hidden_size=shape.hidden_size, target_hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size, num_attention_heads=shape.num_attention_heads,
        num_key_value_heads=shape.num_key_value_heads, head_dim=shape.head_dim, vocab_size=shape.vocab_size,
        draft_vocab_size=min(draft_vocab_size, shape.vocab_size), rms_norm_eps=shape.rms_norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_parameters["rope_theta"]},
        max_position_embeddings=shape.max_position_embeddings, taps=taps_of(shape.num_hidden_layers),
    )  # fmt: skip


def taps_of(num_layers: int) -> tuple[int, ...]:
    """Return the paper's taps as layers whose output is read: the inputs of layers 2, n/2 and n-3."""
    return (1, num_layers // 2 - 1, num_layers - 4)


def frequent_tokens(outputs: Sequence[Output], size: int, vocab_size: int) -> Tensor:
    """Return the `size` tokens that the target says most often, ascending; ties go to the lower id."""
    counts = Counter(token for output in outputs for token in output.output)
    ranked = sorted(range(vocab_size), key=lambda token: (-counts[token], token))
    return torch.tensor(sorted(ranked[:size]))


@torch.no_grad()
def initialise(
    target: Qwen3ForCausalLM, config: Eagle3Config, tokens: Tensor, seed: int = SEED
) -> Eagle3Model:
    """Start from the target: a late layer, the final norm and the output rows of `tokens` copied.

    Queries, keys and values start as noise: the target's norm theirs, and none reads an embedding. With
    them copied into the feature's half the loss fell more slowly (3.4 against 2.9 nats after 80 steps).
    """
    torch.manual_seed(seed)
    model = Eagle3Model(config)
    model.d2t.copy_(tokens - torch.arange(len(tokens)))
    source: Any = target.model.layers[COPIED_LAYER]
    layer = model.midlayer
    torch.nn.init.normal_(layer.qkv_proj.weight, std=NOISE)
    layer.hidden_norm.weight.copy_(source.input_layernorm.weight)
    layer.o_proj.weight.copy_(source.self_attn.o_proj.weight)
    layer.post_attention_layernorm.weight.copy_(source.post_attention_layernorm.weight)
    gate_up = torch.cat((source.mlp.gate_proj.weight, source.mlp.up_proj.weight))
    layer.gate_up_proj.weight.copy_(gate_up)
    layer.down_proj.weight.copy_(source.mlp.down_proj.weight)
    model.norm.weight.copy_(target.model.norm.weight)
    model.lm_head.weight.copy_(target.lm_head.weight[tokens])
    mean = torch.eye(config.hidden_size).repeat(1, config.num_taps) / config.num_taps  # [H, m*H]
    model.fc.weight.copy_(mean + NOISE * torch.randn_like(mean))
    return model


def to_examples(target: Target, outputs: Sequence[Output], taps: tuple[int, ...]) -> list[Example]:
    """Run the target once over every sequence and keep what the drafter reads and has to say."""
    longest = max(len(output.prompt) + len(output.output) for output in outputs)
    target.reserve(1, longest, (*taps, FINAL_NORM))
    examples = []
    for output in outputs:
        if len(output.output) >= 2:  # the first token is the target's own
            ids = output.prompt + output.output
            told = target.prefill(0, ids).features[0].bfloat16()  # [T, (m+1)*H]
            features, final = told.tensor_split((len(taps) * target.hidden_size,), -1)
            examples.append(Example(torch.tensor(ids), len(output.prompt), features, final))
    return examples


def to_rows(group: Sequence[Example]) -> Rows:
    """Lay sequences side by side; behind its end a row holds zeros."""
    longest = max(len(e.ids) for e in group)
    tokens = torch.zeros(len(group), longest + TEST_STEPS, dtype=torch.int64)
    features = torch.zeros(len(group), longest, group[0].features.shape[1])
    final = torch.zeros(len(group), longest + TEST_STEPS, group[0].final.shape[1])
    for row, example in enumerate(group):
        length = len(example.ids)
        tokens[row, :length] = example.ids
        features[row, :length] = example.features
        final[row, :length] = example.final
    # Drafting starts when the first token of the output is known, from the entry that holds it.
    first = torch.tensor([[e.start - 1] for e in group])
    last = torch.tensor([[len(e.ids) - 3] for e in group])
    width = int((last - first).max()) + 1
    entries = (first + torch.arange(width)).clamp(max=longest - 1)
    return Rows(tokens, features, final, entries, last)


def unrolled_loss(model: Eagle3Model, target: Qwen3ForCausalLM, rows: Rows) -> Tensor:
    """Return the cross entropy of all steps of the training-time test, weighted and averaged, in nats.

    An entry's step s says token i+2+s, from the embedding of token i+1+s and the feature that step s-1
    put out, at position i+s. It sees the true entries up to i, and its own of the steps before.
    """
    head = target.lm_head.weight[model.drafted()]  # [V', H]
    seen = Seen(rows.entries)
    everything = torch.arange(rows.features.shape[1]).expand(len(rows.tokens), -1)  # [B, S]
    embeddings = target.model.embed_tokens(rows.tokens)  # [B, S + TEST_STEPS, H]
    hidden = model(
        embeddings[:, 1 : rows.features.shape[1] + 1],
        model.fuse(rows.features),
        model.rotary(everything),
        seen.causal,
    )
    hidden = take(hidden, rows.entries)  # [B, N, H]
    total = torch.zeros(())
    for step in range(TEST_STEPS):
        if step:
            following = take(embeddings, rows.entries + 1 + step)
            hidden = model(following, hidden, model.rotary(rows.entries + step), seen.attend)
        counts = rows.entries + step <= rows.last  # [B, N]
        final = take(rows.final, rows.entries + 1 + step)[counts]  # [L, H]
        law = law_of(final, target, head)
        said = model.logits(hidden[counts]).log_softmax(-1)
        total = total - DECAY**step * (law * said).sum() / max(1, int(counts.sum()))
    return total / sum(DECAY**step for step in range(TEST_STEPS))


@torch.no_grad()
def law_of(final: Tensor, target: Qwen3ForCausalLM, head: Tensor) -> Tensor:
    """Return the target's probabilities [L, V'] of the tokens whose output rows are `head`.

    They sum to less than 1 by the tokens that cannot be drafted: a position counts as much as it can
    be drafted at all.
    """
    whole = target.lm_head(final).logsumexp(-1, keepdim=True)
    law: Tensor = (F.linear(final, head) - whole).exp()
    return law


class Seen:
    """Attention of the training-time test: step 0 over all entries, later steps over N of each row."""

    def __init__(self, entries: Tensor) -> None:
        self._entries = entries  # [B, N]
        self._keys: list[Tensor] = []  # step 0: [B, Hkv, S, D]; then [B, Hkv, N, D]
        self._values: list[Tensor] = []

    def causal(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attend causally over a whole sequence, and remember its keys and values."""
        queries, keys, values = (x.transpose(1, 2) for x in (queries, keys, values))
        self._keys, self._values = [keys], [values]
        out = F.scaled_dot_product_attention(
            queries, keys, values, is_causal=True, enable_gqa=queries.shape[1] != keys.shape[1]
        )
        return out.transpose(1, 2).flatten(2)

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attend to the true entries up to one's own, and to what stands at it since step 1."""
        queries, keys, values = (x.transpose(1, 2) for x in (queries, keys, values))
        self._keys.append(keys)
        self._values.append(values)
        shape = (*keys.shape[:2], -1, *keys.shape[2:])
        grouped = queries.reshape(shape) / math.sqrt(queries.shape[-1])  # [B, Hkv, G, N, D]
        true = grouped @ self._keys[0][:, :, None].transpose(-1, -2)  # [B, Hkv, G, N, S]
        hidden = torch.arange(true.shape[-1]) > self._entries[..., None]  # [B, N, S]
        true = true.masked_fill(hidden[:, None, None], -torch.inf)
        own = [(grouped * k[:, :, None]).sum(-1, keepdim=True) for k in self._keys[1:]]
        weights = torch.cat((true, *own), -1).softmax(-1)
        length = true.shape[-1]
        out: Tensor = weights[..., :length] @ self._values[0][:, :, None]  # [B, Hkv, G, N, D]
        for step, value in enumerate(self._values[1:]):
            out = out + weights[..., length + step, None] * value[:, :, None]
        return out.flatten(1, 2).transpose(1, 2).flatten(2)


def take(x: Tensor, entries: Tensor) -> Tensor:
    """Pick `entries` [B, N] of x [B, S, H]."""
    return x.take_along_dim(entries[..., None], 1)


def train(
    target: Qwen3ForCausalLM,
    outputs: Sequence[Output],
    checkpoint: Path,
    *,
    steps: int = STEPS,
    progress: Progress,
) -> Eagle3Model:
    """Train the drafter for a fixed number of steps, resuming from `checkpoint` when it is there."""
    target.requires_grad_(False)
    config = config_for(target)
    tokens = frequent_tokens(outputs, config.draft_vocab_size, config.vocab_size)
    examples = to_examples(Target.from_model(target), outputs, config.taps or ())
    progress(f"eagle3: {len(examples)} sequences, {sum(len(e.ids) for e in examples)} tokens")
    model = initialise(target, config, tokens)

    def loss_of(step: int, group: Sequence[Example]) -> Tensor:
        return unrolled_loss(model, target, to_rows(group))

    schedule = Schedule("eagle3", steps, WARM_UP_STEPS, LEARNING_RATE, CHECKPOINT_EVERY, 50)
    groups = by_length(examples, BATCH_SIZE, f"eagle3/{SEED}")
    run(schedule, model, groups, loss_of, checkpoint, progress)
    return model
