"""A declarative YAML file: read safely, validated, frozen; what is wrong with it is said in a sentence.

An unknown key is an error with a suggestion, never a silently ignored setting: a benchmark that drops a mistyped option
measures the default and calls it something else.
"""

from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from dflash_bench.errors import ConfigError, did_you_mean


class Part(BaseModel):
    """A piece of a declarative file: immutable, and strict about its keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


AnyPart = TypeVar("AnyPart", bound=Part)


class _UniqueKeyLoader(yaml.SafeLoader):
    """A safe loader that refuses a key written twice, where YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue  # `<<: *anchor` brings keys of another mapping; ours go before them
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is not a word", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key '{key}' stands twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def load_yaml(path: Path) -> dict[str, Any]:
    """Read one YAML mapping safely; errors name the file and the line."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file.", remedy="Check the path.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}.", remedy="Check the file.") from error
    try:
        # The loader derives from SafeLoader: it builds plain values only.
        content = yaml.load(text, Loader=_UniqueKeyLoader)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(
            f"{path}{line}: {error.problem}.", remedy="Mend the YAML there."
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: is not YAML: {error}.", remedy="Mend the file.") from None
    if not isinstance(content, dict):
        raise ConfigError(
            f"{path}: holds no mapping of keys to values.", remedy="See examples/quickstart.yaml."
        )
    return content


def read_part(path: Path, model: type[AnyPart], remedy: str) -> AnyPart:
    """Read the YAML at `path` as a `model`; what does not fit is refused by file, key and value."""
    content = load_yaml(path)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise ConfigError(f"{path}: {explain(error, model)}", remedy=remedy) from None


# Pydantic speaks of Python's types; a spec is written in YAML.
_EXPECTED = {
    "tuple_type": "must be a list, such as [8] or [4, 8]",
    "dict_type": "must be a mapping, such as {key: value}",
    "model_type": "must be a mapping, such as {key: value}",
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
}


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """Turn one of pydantic's findings into a sentence: the key, the value, and what was expected.

    An unknown key goes before a missing one: the one is often the other, mistyped.
    """
    findings = error.errors()
    finding = next((found for found in findings if found["type"] == "extra_forbidden"), findings[0])
    where = [part for part in finding["loc"] if part != "[key]"]
    key = ".".join(str(part) for part in where)
    if finding["type"] == "extra_forbidden":
        known = _keys_at(model, where[:-1])
        return f"{key}: is not a known key. {did_you_mean(str(where[-1]), known)}"
    if finding["type"] == "missing":
        return f"{key}: is missing."
    message = _EXPECTED.get(finding["type"], finding["msg"].removeprefix("Value error, "))
    if not where:
        return f"{message}."
    return f"{key}: {message}; found {finding['input']!r}."


def _keys_at(model: type[BaseModel], where: list[Any]) -> list[str]:
    """Return the keys that the part of `model` at `where` knows."""
    part: Any = model
    steps = iter(where)
    for step in steps:
        field = part.model_fields.get(str(step))
        if field is None:
            break
        if get_origin(field.annotation) in (dict, tuple):
            next(steps, None)  # the name of an entry, or its place
        found = [field.annotation, *get_args(field.annotation)]
        kinds = (kind for kind in found if isinstance(kind, type) and issubclass(kind, BaseModel))
        part = next(kinds, part)
    return list(part.model_fields)
