"""What the user wrote: one YAML file, read safely, validated, frozen.

An unknown key is an error with a suggestion, never a silently ignored setting: a benchmark that drops a mistyped option
measures the default and calls it something else. Paths in a spec are relative to the file that names them, but for
`output`, the results folder, which is relative to the current one, as `-o` is.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from dflash_bench.assets import is_path
from dflash_bench.errors import ConfigError, did_you_mean

SCHEMA_VERSION = 1

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
BlockSize = Annotated[int, Field(ge=2, strict=True)]
Positive = Annotated[int, Field(ge=1, strict=True)]
Seed = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
Temperature = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]


class Part(BaseModel):
    """A piece of a spec: immutable, and strict about its keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


AnyPart = TypeVar("AnyPart", bound=Part)


class Arm(Part):
    """A named method with its settings; `block_size` counts the anchor and overrides the sweep's axis."""

    method: str
    draft: str | None = None
    block_size: BlockSize | None = None

    @model_validator(mode="after")
    def _drafts_or_does_not(self) -> "Arm":
        if self.method == "ar" and (self.draft is not None or self.block_size is not None):
            raise ValueError("method ar drafts nothing, so draft and block_size have no meaning")
        return self


class Sweep(Part):
    """The axes; every combination is measured. `context_length` null leaves prompts as they are."""

    block_size: tuple[BlockSize, ...] = ()
    batch_size: tuple[Positive, ...] = (1,)
    context_length: tuple[Positive | None, ...] = (None,)
    temperature: tuple[Temperature, ...] = (0.0,)

    @field_validator("batch_size", "context_length", "temperature")
    @classmethod
    def _has_a_value(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if not values:
            raise ValueError("an empty list measures nothing; remove the key to keep its default")
        return values

    @field_validator("*")
    @classmethod
    def _no_value_twice(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(set(values)) != len(values):
            raise ValueError(f"a value stands twice in {list(values)}")
        return values


class SamplingSpec(Part):
    """How tokens are chosen, and when a request ends."""

    max_new_tokens: Positive = 128
    seed: Seed = 0
    verify: Literal["match"] = "match"


class Design(Part):
    """The experiment: how many prompts and rounds, against which baseline, and what a difference must be worth."""

    prompts: Positive = 32
    rounds: Annotated[int, Field(ge=1, strict=True)] = 4
    warmup_prompts: Positive | None = None
    baseline: str | None = None
    scope: Literal["workload", "prompts"] = "workload"
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.05
    seed: Seed = 0
    cooldown_s: Annotated[float, Field(ge=0, le=600)] = 0.0
    primary: dict[str, Any] | None = None


class Spec(Part):
    """One benchmark, as its user wrote it."""

    schema_version: Literal[1] = 1
    name: Name
    runner: str = "reference"
    target: str
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    device: str = "cpu"
    threads: Positive = 1
    data_dir: str | None = None
    output: str | None = None
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    arms: dict[Name, Arm]
    workloads: tuple[str, ...]
    sweep: Sweep = Sweep()
    sampling: SamplingSpec = SamplingSpec()
    design: Design = Design()

    @property
    def baseline(self) -> str:
        """The arm that the others are compared with: `design.baseline`, or the first arm whose method is `ar`."""
        if self.design.baseline is not None:
            return self.design.baseline
        return next(name for name, arm in self.arms.items() if arm.method == "ar")

    @model_validator(mode="after")
    def _makes_an_experiment(self) -> "Spec":
        if not self.workloads:
            raise ValueError("workloads: name at least one, such as [sample-math]")
        if len(set(self.workloads)) != len(self.workloads):
            raise ValueError(f"workloads: one stands twice in {list(self.workloads)}")
        baseline = self.design.baseline
        if baseline is None and not any(arm.method == "ar" for arm in self.arms.values()):
            raise ValueError(
                "arms: there is no baseline; add `ar: {method: ar}` or set design.baseline"
            )
        if baseline is not None and baseline not in self.arms:
            raise ValueError(
                f"design.baseline: there is no arm '{baseline}'. {did_you_mean(baseline, self.arms)}"
            )
        return self


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


def load_spec(path: Path) -> Spec:
    """Read and validate the spec at `path`; its relative paths become absolute ones."""
    spec = read_part(path, Spec, remedy="Mend the file and run again.")
    return _anchored(spec, path.resolve().parent)


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
    for step in where:
        if not (isinstance(part, type) and issubclass(part, BaseModel)):
            break
        field = part.model_fields.get(str(step))
        if field is None:
            break
        found = [field.annotation, *getattr(field.annotation, "__args__", ())]
        part = next(
            (kind for kind in found if isinstance(kind, type) and issubclass(kind, BaseModel)), part
        )
    return list(part.model_fields)


def _anchored(spec: Spec, base: Path) -> Spec:
    """Make the user's paths absolute: they are relative to the spec's folder."""

    def placed(value: str) -> str:
        return str((base / Path(value).expanduser()).resolve())

    def anchored(value: str) -> str:
        return placed(value) if _is_file_path(value) else value

    arms = {
        name: arm.model_copy(update={"draft": anchored(arm.draft) if arm.draft else None})
        for name, arm in spec.arms.items()
    }
    workloads = tuple(placed(value) if is_path(value) else value for value in spec.workloads)
    data_dir = placed(spec.data_dir) if spec.data_dir else None
    return spec.model_copy(
        update={
            "arms": arms,
            "workloads": workloads,
            "data_dir": data_dir,
            "target": anchored(spec.target),
        }
    )


def _is_file_path(value: str) -> bool:
    """A model is a file path if it says so: `Qwen/Qwen3-8B` is a hub id, `./mine` and `/models/x` are paths."""
    return value.startswith(("./", "../", "/", "~"))
