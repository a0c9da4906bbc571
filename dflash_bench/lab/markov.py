"""The known-answer pair `markov`: no training, exact weights, an acceptance that can be counted by hand.

The target's layers add nothing (o_proj and down_proj are zero), so its logits are a function of the last
token alone: a -> b -> c -> d -> a. The drafter says c for every slot. c is right only where the anchor is
b, and a second c never is: the accepted drafts per step are 0, 0, 1, repeating, acceptance length 4/3. A
contract test for every backend: what another engine counts differently shows at once.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from dflash_bench.engine.methods.dflash_checkpoint import save as save_drafter
from dflash_bench.engine.methods.dflash_config import DFlashConfig
from dflash_bench.engine.methods.dflash_model import DFlashModel
from dflash_bench.lab.tokenizer import MASK, SPECIAL_TOKENS, save, special_id, wrap

HIDDEN, LAYERS, HEAD_DIM, HEADS, KV_HEADS, INTERMEDIATE = 64, 4, 32, 2, 1, 128
CYCLE = "abcd"
ALWAYS_DRAFTED = "c"
BLOCK_SIZE = 8
TAPS = (0, 2)
SEED = 0


def new_tokenizer() -> PreTrainedTokenizerFast:
    """Build a byte-level tokenizer: 4 special tokens, 256 bytes, and one merge, which some converters insist on."""
    symbols = [*SPECIAL_TOKENS, *sorted(pre_tokenizers.ByteLevel.alphabet()), "zz"]
    vocab = {symbol: i for i, symbol in enumerate(symbols)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[("z", "z")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return wrap(tokenizer)


@torch.no_grad()
def new_target(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """Build the target: each letter of the cycle makes the next one the likeliest, whatever came before."""
    torch.manual_seed(SEED)
    shape = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=HIDDEN, num_hidden_layers=LAYERS, intermediate_size=INTERMEDIATE,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM, tie_word_embeddings=False,
        max_position_embeddings=1024, bos_token_id=None, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    model = Qwen3ForCausalLM(shape)
    for name, weight in model.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            weight.zero_()
    # One hidden unit per letter; any other token leads to the first letter by a unit of its own.
    ids = [special_id(tokenizer, letter) for letter in CYCLE]
    embedding, head = model.model.embed_tokens.weight, model.lm_head.weight
    embedding.zero_()
    head.zero_()
    embedding[:, len(CYCLE)] = 1.0
    for unit, letter in enumerate(ids):
        embedding[letter].zero_()
        embedding[letter, unit] = 1.0
        head[ids[(unit + 1) % len(CYCLE)], unit] = 1.0
    head[ids[0], len(CYCLE)] = 1.0
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        eos_token_id=2, pad_token_id=0, do_sample=False
    )
    return model


@torch.no_grad()
def new_drafter(target: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> DFlashModel:
    """Build the drafter: masks pass through unchanged, and the final norm makes every mask say c."""
    torch.manual_seed(SEED)
    mask = special_id(tokenizer, MASK)
    config = DFlashConfig(
        hidden_size=HIDDEN, intermediate_size=INTERMEDIATE, num_hidden_layers=1, num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM, vocab_size=len(tokenizer), rms_norm_eps=1e-6,
        rope_theta=10000.0, block_size=BLOCK_SIZE, mask_token_id=mask, target_layer_ids=TAPS, num_target_layers=LAYERS,
    )  # fmt: skip
    model = DFlashModel(config)
    for name, weight in model.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            weight.zero_()
    # The mask's embedding is a copy of b's: after it the target's head says c.
    before = CYCLE[(CYCLE.index(ALWAYS_DRAFTED) - 1) % len(CYCLE)]
    embedding = target.model.embed_tokens.weight
    embedding[mask] = embedding[special_id(tokenizer, before)]
    return model


def build(target_folder: Path, drafter_folder: Path) -> None:
    """Write both models in bf16; every weight that matters is 0 or 1, so nothing is lost."""
    tokenizer = new_tokenizer()
    target = new_target(tokenizer)
    drafter = new_drafter(target, tokenizer)
    target.bfloat16().save_pretrained(target_folder)
    save(tokenizer, target_folder)
    save_drafter(drafter.bfloat16(), drafter.config, drafter_folder)
