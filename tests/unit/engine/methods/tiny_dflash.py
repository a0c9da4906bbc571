"""Tiny DFlash networks of every kind, with wide random weights, and a block recomputed without a cache."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dflash_bench.engine.draft import Anchors
from dflash_bench.engine.methods.dflash import DFlashDrafter
from dflash_bench.engine.methods.dflash_attention import LayerAttention
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.engine.methods.dflash_shape import SecondShape
from dflash_bench.engine.target import Target
from tests.unit.engine.tiny import MASK, VOCAB, dflash_config

SECOND = SecondShape(conv_kernel_size=2, conv_group_size=8, selector_rank=6, selector_top_k=5)
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "sliding": {"attention": (LayerAttention(window=4, causal=True), LayerAttention())},
    "both-ways": {"attention": (LayerAttention(window=3), LayerAttention(causal=True))},
    "yarn": {"rope_scaling": YARN, "max_position_embeddings": 64},
    "scaled": {
        "output_multiplier": 0.1,
        "input_embedding_scale": 5.0,
        "final_logit_softcapping": 2.0,
    },
    "second": {"second": SECOND},
    "own-head": {"own_embeddings": True, "draft_vocab_size": 40},
    "from-anchor": {"sample_from_anchor": True},
}


def build_network(seed: int = 1, **changes: Any) -> DFlashModel:
    """Return a network whose wide weights make its drafts depend on all of the context."""
    torch.manual_seed(seed)
    model = DFlashModel(dflash_config(**changes)).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            quiet = {"attention_conv": 0.5, "mlp_conv": 0.5, "noise_level": 0.1}
            std = next((quiet[part] for part in name.split(".") if part in quiet), 1.0)
            torch.nn.init.normal_(parameter, std=std)
    if "d2t" in dict(model.named_buffers()):
        said = torch.randperm(VOCAB)[: len(model.d2t)].sort().values
        model.d2t.copy_(said - torch.arange(len(said)))
    return model


def features_of(target: Target, text: Sequence[int], taps: Sequence[int]) -> Tensor:
    """Return what the drafter taps of a text, [1, T, m*H], by Hugging Face's own forward pass."""
    model: Any = target.network
    whole = model.model(torch.tensor([list(text)]), output_hidden_states=True, use_cache=False)
    # hidden_states[0] is the embedding, so layer i's output stands at i + 1.
    return torch.cat([whole.hidden_states[i + 1] for i in taps], -1)


def draft_once(
    drafter: DFlashDrafter, target: Target, text: Sequence[int], key: int = 0
) -> list[int]:
    """Let a drafter read all of `text` but its last token, and draft one block after that."""
    n = len(text) - 1
    drafter.reserve(1, 64)
    drafter.admit(0, text, features_of(target, text[:n], drafter.taps))
    starts, keys = torch.tensor([n]), torch.tensor([key])
    drafted = drafter.draft_block(Anchors(torch.tensor([text[-1]]), [n], starts=starts, keys=keys))
    return [int(token) for token in drafted.tokens[0]]


def hidden_of(
    target: Target,
    network: DFlashModel,
    text: Sequence[int],
    embeddings: Tensor,
    taps: Sequence[int] | None = None,
) -> Tensor:
    """Run block embeddings [1, K, H] after `text` from scratch, who sees whom written out slot by slot."""
    n, width = len(text) - 1, embeddings.shape[1]  # the last token is pending: it has no features
    features = features_of(target, text[:n], taps or network.config.target_layer_ids)
    positions = torch.arange(n, n + width)[None]
    context = network.context_keys_values(features, torch.arange(n)[None])

    def extend(keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        before = context[layer]
        return torch.cat((before[0], keys), 2), torch.cat((before[1], values), 2)

    masks = [seen_by_definition(each, n, width)[None, None] for each in network.config.layers]
    return network.denoise(embeddings, positions, masks, extend)


def seen_by_definition(attention: LayerAttention, start: int, width: int) -> Tensor:
    """Return who sees whom in a block at `start`, bool [width, start + width], one pair at a time."""
    seen = torch.zeros(width, start + width, dtype=torch.bool)
    for i in range(width):
        for slot in range(start + width):
            ahead = slot - (start + i)
            near = attention.window is None or abs(ahead) < attention.window
            seen[i, slot] = near and not (attention.causal and ahead > 0)
    return seen


def block_of(target: Target, network: DFlashModel, text: Sequence[int], width: int) -> Tensor:
    """Return the embeddings [1, width, H] of the last token of `text` and masks."""
    tokens = torch.tensor([[text[-1]] + [MASK] * (width - 1)])
    return embedded(target, network, tokens)


def embedded(target: Target, network: DFlashModel, tokens: Tensor) -> Tensor:
    config = network.config
    own = network.embed_tokens if config.own_embeddings else target.embed
    found: Tensor = own(tokens) * config.input_embedding_scale
    return found


def logits_of(target: Target, network: DFlashModel, hidden: Tensor) -> Tensor:
    """Return logits [..., V] of the target's vocabulary, -inf for what the drafter cannot say."""
    config = network.config
    if config.draft_vocab_size is None:
        logits = target.lm_head(hidden) * config.output_multiplier
        cap = config.final_logit_softcapping
        return logits if cap is None else (logits / cap).tanh() * cap
    own: Tensor = network.lm_head(hidden)
    if config.draft_vocab_size == VOCAB:
        return own
    whole = torch.full((*own.shape[:-1], VOCAB), -torch.inf)
    for index, offset in enumerate(network.d2t.tolist()):
        whole[..., index + offset] = own[..., index]
    return whole


def recompute(
    target: Target,
    network: DFlashModel,
    text: Sequence[int],
    nodes: int,
    taps: Sequence[int] | None = None,
) -> list[int]:
    """Draft what follows `text` from scratch: all features, the whole context, one row, no cache."""
    config = network.config
    width = nodes - config.sample_from_anchor
    hidden = hidden_of(target, network, text, block_of(target, network, text, width), taps)
    hidden = hidden[:, 0 if config.sample_from_anchor else 1 :]
    logits = logits_of(target, network, hidden)
    if config.second is None:
        return [int(token) for token in logits[0].argmax(-1)]
    selector, token, chosen = network.candidate_selector, text[-1], []
    for state, scores in zip(hidden[0].detach(), logits[0].detach(), strict=True):
        best = scores.topk(selector.top_k).indices.tolist()
        edge = selector.predecessor_codebook[token] * selector.hidden_projection(state)
        total = [float(scores[b] + edge @ selector.successor_codebook[b]) for b in best]
        token = best[total.index(max(total))]
        chosen.append(token)
    return chosen
