"""Bring prompts to a context length: real text in front of the question, until the rendered prompt is long enough.

The length that counts is that of the final token ids. Tokens merge across the seams, so it cannot be added up from the
parts: the whole prompt is rendered and encoded again until it fits.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dflash_bench.errors import ConfigError
from dflash_bench.workloads.filler import FillerSource
from dflash_bench.workloads.prompts import Item, Prompt, Tokenizer, make_prompt

BLANK_LINE = "\n\n"


@dataclass(frozen=True)
class Shaped:
    """The prompts that have the asked length, and how many could not be brought there and are left out.

    Most of the latter are longer already; for a few, no cut of the filler lands in the allowed range.
    """

    prompts: list[Prompt]
    left_out: int


def render_prompts(items: Sequence[Item], tokenizer: Tokenizer) -> list[Prompt]:
    """Return `items` as they are, rendered and encoded."""
    return [make_prompt(item, *_encoded(item, tokenizer)) for item in items]


def shape(
    items: Sequence[Item],
    tokenizer: Tokenizer,
    context_length: int | None,
    filler: FillerSource | None,
    seed: int,
) -> Shaped:
    """Return `items` as prompts of 0.95 `context_length` to `context_length` tokens; as they are where it is None.

    A prompt that is long enough without filler stays as it is. Raises ConfigError where none can be brought there.
    """
    plain = render_prompts(items, tokenizer)
    if context_length is None:
        return Shaped(plain, left_out=0)
    if filler is None:
        raise ConfigError(
            "sweep.context_length: there is no text to fill a context with.",
            remedy="Give the workload a `filler:`.",
        )
    openings = filler.openings(len(items), seed)
    prompts: list[Prompt] = []
    for item, prompt, opening in zip(items, plain, openings, strict=True):
        texts = filler.before(item.id, opening, seed)
        shaped = _shaped(item, prompt, context_length, texts, tokenizer)
        prompts += [shaped] if shaped is not None else []
    if not prompts:
        raise _none_fits(plain, context_length)
    return Shaped(prompts, left_out=len(plain) - len(prompts))


def least_length(context_length: int) -> int:
    """Return the shortest allowed prompt, in tokens: 95 % of `context_length`, rounded up."""
    return -(-95 * context_length // 100)


def _shaped(
    item: Item, plain: Prompt, length: int, texts: Iterable[str], tokenizer: Tokenizer
) -> Prompt | None:
    """Return the prompt at its length, or None where it is longer already or no cut of the filler fits."""
    if len(plain.ids) > length:
        return None
    if len(plain.ids) >= least_length(length):
        return plain
    filler = _gathered(texts, length, tokenizer)
    least, most = 1, len(filler)
    take = length - len(plain.ids)
    while least <= most:
        take = min(max(take, least), most)
        text, ids = _encoded(_in_front(_head(filler, take, tokenizer), item), tokenizer)
        if len(ids) > length:
            most = take - 1
        elif len(ids) < least_length(length):
            least = take + 1
        else:
            return make_prompt(item, text, ids)
        take += length - len(ids)
    return None


def _gathered(texts: Iterable[str], length: int, tokenizer: Tokenizer) -> list[int]:
    """Return the tokens of as many whole texts as it takes to have `length` of them."""
    gathered: list[str] = []
    tokens = 0
    for text in texts:
        gathered.append(text)
        tokens += len(tokenizer.encode(text))
        if tokens >= length:
            return tokenizer.encode(BLANK_LINE.join(gathered))
    raise ConfigError(
        f"sweep.context_length: all of the filler together has {tokens} tokens, not {length}.",
        remedy=f"Ask for a context_length of at most {tokens}, or give the workload a larger filler.",
    )


def _head(filler: Sequence[int], take: int, tokenizer: Tokenizer) -> str:
    """Return the first tokens as text, without the half character that a byte-level token can end in."""
    return tokenizer.decode(filler[:take]).rstrip("\ufffd")


def _in_front(filler: str, item: Item) -> Item:
    """Put `filler` before the text, or inside the first user message before the question."""
    if item.text is not None:
        return replace(item, text=f"{filler}{BLANK_LINE}{item.text}")
    messages = list(item.messages or ())
    first = next(n for n, message in enumerate(messages) if message["role"] == "user")
    content = f"{filler}{BLANK_LINE}{messages[first]['content']}"
    messages[first] = {"role": "user", "content": content}
    return replace(item, messages=tuple(messages))


def _encoded(item: Item, tokenizer: Tokenizer) -> tuple[str, list[int]]:
    text = item.text if item.text is not None else tokenizer.render(item.messages or ())
    return text, tokenizer.encode(text)


def _none_fits(plain: Sequence[Prompt], context_length: int) -> ConfigError:
    lengths = [len(prompt.ids) for prompt in plain]
    remedy = f"Ask for a context_length of {max(lengths)} or more, which keeps all of them."
    if max(lengths) <= context_length:
        remedy = (
            "Ask for a longer context: no cut of the filler lands between 95 % and all of this one."
        )
    return ConfigError(
        f"sweep.context_length: no prompt can be brought to {context_length} tokens: without filler"
        f" they have {min(lengths)} to {max(lengths)}.",
        remedy=remedy,
    )
