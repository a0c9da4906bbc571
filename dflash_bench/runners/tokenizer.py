"""The target's own tokenizer: one place where chats become text and text becomes tokens, for all arms."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from transformers import AutoTokenizer

from dflash_bench.errors import ConfigError
from dflash_bench.workloads.prompts import Message

# One of these must be there: without any, transformers builds an empty tokenizer and says nothing.
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
    "*.tiktoken",
)
# Parameters of `apply_chat_template`, and the name under which a template finds the chat.
OURS = {
    "conversation",
    "messages",
    "chat_template",
    "tokenize",
    "add_generation_prompt",
    "continue_final_message",
    "padding",
    "truncation",
    "max_length",
    "return_tensors",
    "return_dict",
    "return_assistant_tokens_mask",
    "tokenizer_kwargs",
}
LOADING = (OSError, ValueError, TypeError, AttributeError, LookupError)
# A template is a program of the model's: beside refusing, it can fail in any of Python's usual ways.
RENDERING = (
    TemplateError,
    TypeError,
    ValueError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RecursionError,
)


class TargetTokenizer:
    """Wraps the Hugging Face tokenizer in a target's folder; `template_kwargs` go to its chat template."""

    def __init__(self, folder: Path, template_kwargs: Mapping[str, Any]) -> None:
        """Load it; raises ConfigError if the folder holds none, or a keyword is one of ours."""
        self._tokenizer: Any = _load(folder)
        taken = OURS & set(template_kwargs)
        if taken:
            raise ConfigError(
                f"chat_template_kwargs.{min(taken)}: is set by dflash-bench, the same for all arms.",
                remedy="Remove it; what the model's own template reads may stay.",
            )
        self._template_kwargs = dict(template_kwargs)

    @property
    def has_chat_template(self) -> bool:
        """Whether `render` follows the model's own chat template, or joins the messages plainly."""
        return bool(self._tokenizer.chat_template)

    def render(self, messages: Sequence[Message]) -> str:
        """Return the chat as text that ends where the assistant's answer begins."""
        if not self.has_chat_template:
            return "\n\n".join(message["content"] for message in messages) + "\n\n"
        try:
            text: str = self._tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                tokenize=False,
                add_generation_prompt=True,
                **self._template_kwargs,
            )
        except RENDERING as error:
            raise ConfigError(
                f"target: its chat template refuses a prompt: {error}.",
                remedy="Send the prompts as `text`, leave out the roles that the model does not know, or correct"
                " chat_template_kwargs.",
            ) from error
        return text

    def encode(self, text: str) -> list[int]:
        """Return the token ids of `text`.

        What the tokenizer puts in front of every text (Llama's BOS) is put there, unless a chat template
        has spelled it out already.
        """
        bos = self._tokenizer.bos_token
        spelled_out = bool(bos) and text.startswith(bos)
        ids: list[int] = self._tokenizer(text, add_special_tokens=not spelled_out)["input_ids"]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`, special tokens included."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False)
        return text


def _load(folder: Path) -> Any:
    """Return the tokenizer in `folder`; code that lies there is never run."""
    if not any(any(folder.glob(name)) for name in TOKENIZER_FILES):
        raise _none_there(folder, "has no tokenizer.json, tokenizer.model or vocabulary")
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except LOADING as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise _none_there(folder, reason) from error


def _none_there(folder: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"target: {folder} holds no tokenizer that can be loaded: {reason}.",
        remedy="Put the model's tokenizer.json and tokenizer_config.json there.",
    )
