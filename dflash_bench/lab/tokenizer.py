"""The lab's tokenizer: byte-level BPE of 1,024 tokens, single digits, ChatML special tokens.

Saved as Hugging Face files (`tokenizer.json`, `tokenizer_config.json` with the chat template), so that every
backend reads it as it would any other model's.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from dflash_bench.lab.corpus.row import Row

VOCAB_SIZE = 1024
MAX_POSITIONS = 2048
SAMPLE_SEED, SAMPLE_ROWS = 0, 4000
END_OF_TEXT, TURN_START, TURN_END, MASK = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"
SPECIAL_TOKENS = (END_OF_TEXT, TURN_START, TURN_END, MASK)  # ids 0, 1, 2, 3
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def train(texts: Iterable[str], vocab_size: int = VOCAB_SIZE) -> PreTrainedTokenizerFast:
    """Learn the merges from `texts` (deterministic for a given order and library version)."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return wrap(tokenizer)


def wrap(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """Give a bare tokenizer the names of its special tokens and the chat template."""
    wrapped = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        mask_token=MASK,
        additional_special_tokens=[TURN_START],
        model_max_length=MAX_POSITIONS,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def save(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`, the chat template inside the latter.

    transformers 5 names a class that version 4 does not know; the old name is read by both.
    """
    tokenizer.save_pretrained(folder, save_jinja_files=False)
    path = folder / "tokenizer_config.json"
    fields = json.loads(path.read_text(encoding="utf-8"))
    fields["tokenizer_class"] = "PreTrainedTokenizerFast"
    path.write_text(json.dumps(fields, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def special_id(tokenizer: PreTrainedTokenizerFast, token: str) -> int:
    """Return the id of a special token."""
    (found,) = encode(tokenizer, token)
    return found


def load(folder: Path) -> PreTrainedTokenizerFast:
    """Read the tokenizer files of a model folder."""
    return wrap(Tokenizer.from_file(str(folder / "tokenizer.json")))


def prompt_text(prompt: str) -> str:
    """Return what stands before the assistant's answer: the chat template applied to one user message."""
    return f"{TURN_START}user\n{prompt}{TURN_END}\n{TURN_START}assistant\n"


def encode(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    """Return token ids; special tokens in `text` become their ids."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def sample_texts(rows: dict[str, list[Row]]) -> list[str]:
    """Return what the merges are learnt from: an equal, seeded share of every family's prompts and answers."""
    rng = random.Random(SAMPLE_SEED)
    chosen = [
        row
        for members in rows.values()
        for row in rng.sample(members, min(SAMPLE_ROWS, len(members)))
    ]
    return [text for row in chosen for text in (row.prompt, row.answer)]
