"""What must not be written down: a results folder is meant to be shared, and commands and settings can hold keys.

A value is hidden by the name that it goes by: of a variable, a flag, a setting.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

HIDDEN = "(not written down)"
_ANYWHERE = re.compile(r"secret|passwo?r?d|credential|authorization")
_AT_THE_END = re.compile(r"(^|_)(key|keys|apikey|apikeys|token|auth)$")
_TOKENS_OF_TEXT = re.compile(r"(bos|eos|pad|mask|unk|sep|cls)_token$")


def is_secret(name: str) -> bool:
    """Tell whether `name`, such as `HF_TOKEN`, `--api-key` or `accessToken`, is one of a secret."""
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).replace("-", "_").strip("_").lower()
    if _ANYWHERE.search(snake):
        return True
    return bool(_AT_THE_END.search(snake)) and not _TOKENS_OF_TEXT.search(snake)


def without_secrets(told: Any) -> Any:
    """Return plain values with those hidden that are named like a secret."""
    if isinstance(told, Mapping):
        return {
            name: HIDDEN if value and is_secret(str(name)) else without_secrets(value)
            for name, value in told.items()
        }
    return [without_secrets(value) for value in told] if isinstance(told, list | tuple) else told


def hidden_words(argv: Iterable[str]) -> list[str]:
    """Return a command with the values hidden of flags that are named like a secret."""
    shown: list[str] = []
    for word in argv:
        flag, equals, _ = word.partition("=")
        if shown and shown[-1].startswith("--") and is_secret(shown[-1]):
            shown.append(word if word.startswith("--") else HIDDEN)
        elif equals and flag.startswith("--") and is_secret(flag):
            shown.append(f"{flag}={HIDDEN}")
        else:
            shown.append(word)
    return shown


def hidden_flags(told: Any) -> Any:
    """Return plain values in which every list called `flags` is a command with its secrets hidden."""
    if isinstance(told, Mapping):
        return {
            name: hidden_words(map(str, value))
            if name == "flags" and isinstance(value, list | tuple)
            else hidden_flags(value)
            for name, value in told.items()
        }
    return [hidden_flags(value) for value in told] if isinstance(told, list | tuple) else told
