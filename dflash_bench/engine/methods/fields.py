"""Reading a drafter's configuration strictly: a value of the wrong kind is refused with its file and key.

A wrong RoPE, tap, norm or mask raises no error and changes no output: it only costs acceptance. So nothing
is guessed, whatever the method.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dflash_bench.errors import ConfigError

Json = dict[str, Any]

# Keys that every Hugging Face configuration carries and that change nothing in a drafter's forward pass.
HARMLESS = {
    *("_name_or_path", "architectures", "auto_map", "dtype", "torch_dtype", "transformers_version"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings", "initializer_range"),
    *("chunk_size_feed_forward", "id2label", "label2id", "problem_type", "use_cache"),
    *("is_decoder", "is_encoder_decoder", "return_dict", "output_attentions"),
    *("output_hidden_states", "max_window_layers"),
}


class ConfigFile(NamedTuple):
    """The file that is read, and what to do when it cannot be used."""

    path: Path
    remedy: str

    def __str__(self) -> str:
        return str(self.path)


def demand(raw: Mapping[str, Any], key: str, allowed: tuple[object, ...], file: ConfigFile) -> None:
    """Refuse a value that is none of `allowed`."""
    if raw.get(key) not in allowed:
        raise refusal(file, key, raw.get(key), f"only {allowed[0]!r} is supported")


def mapping(raw: Mapping[str, Any], key: str, file: ConfigFile) -> Json:
    """Read an object."""
    value = raw.get(key)
    if not isinstance(value, dict):
        raise refusal(file, key, value, "an object is needed here")
    return dict(value)


def integer(
    raw: Mapping[str, Any],
    key: str,
    file: ConfigFile,
    least: int = 1,
    default: int | None = None,
) -> int:
    """Read an integer of at least `least`; it may be absent where there is a `default`."""
    value = raw.get(key)
    if value is None and default is not None:
        return default
    if type(value) is not int or value < least:  # bool is an int to isinstance, and not to us
        raise refusal(file, key, value, f"an integer of at least {least} is needed here")
    return value


def boolean(raw: Mapping[str, Any], key: str, file: ConfigFile) -> bool | None:
    """Read true or false, or None where it is absent."""
    value = raw.get(key)
    if value is not None and type(value) is not bool:
        raise refusal(file, key, value, "true or false is needed here")
    return value


def number(raw: Mapping[str, Any], key: str, file: ConfigFile) -> float:
    """Read a positive number."""
    value = raw.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise refusal(file, key, value, "a positive number is needed here")
    return float(value)


def refusal(file: ConfigFile, key: str, value: object, reason: str) -> ConfigError:
    """Return the error that names the file, the key, its value and what is wrong with it."""
    said = "absent" if value is None else json.dumps(value, default=str)
    return ConfigError(f"{file}: {key} is {said[:200]}: {reason}.", remedy=file.remedy)
