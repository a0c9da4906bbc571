"""What the user wrote: one YAML file that names models, arms, workloads and axes.

Paths in a spec are relative to the file that names them, but for `output`, the results folder, which is relative to the
current one, as `-o` is.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from dflash_bench.assets import is_path
from dflash_bench.errors import ConfigError, did_you_mean
from dflash_bench.spec.arm import (
    LOSSY_RULES,
    Arm,
    BaseUrl,
    BlockSize,
    Positive,
    SamplingSpec,
    Seed,
)
from dflash_bench.spec.declarative import Part, explain, read_part

SCHEMA_VERSION = 1

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
Temperature = Annotated[float, Field(ge=0, le=10, strict=True, allow_inf_nan=False)]
RequestRate = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]
Quantization = Literal["int8", "int4"]


class Sweep(Part):
    """The axes; every combination is measured.

    `context_length` null leaves prompts as they are; `max_new_tokens` null is the sampling's; `request_rate` null is
    the closed loop, a number an open one of so many requests per second; `target_quantization` none leaves the
    weights as they are.
    """

    block_size: tuple[BlockSize, ...] = ()
    batch_size: tuple[Positive, ...] = (1,)
    context_length: tuple[Positive | None, ...] = (None,)
    temperature: tuple[Temperature, ...] = (0.0,)
    max_new_tokens: tuple[Positive | None, ...] = (None,)
    request_rate: tuple[RequestRate | None, ...] = (None,)
    target_quantization: tuple[Quantization | None, ...] = (None,)

    @field_validator("target_quantization", mode="before")
    @classmethod
    def _none_is_a_word(cls, values: Any) -> Any:
        if not isinstance(values, list | tuple):
            return values
        return tuple(None if value == "none" else value for value in values)

    @field_validator(
        "batch_size",
        "context_length",
        "temperature",
        "max_new_tokens",
        "request_rate",
        "target_quantization",
    )
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


class Design(Part):
    """The experiment: how many prompts and rounds, against which baseline, and what a difference must be worth."""

    prompts: Positive = 32
    rounds: Annotated[int, Field(ge=1, strict=True)] = 4
    warmup_prompts: Positive | None = None
    baseline: str | None = None
    scope: Literal["workload", "prompts"] = "workload"
    delta: Annotated[float, Field(gt=0, lt=1, strict=True)] = 0.05
    seed: Seed = 0
    cooldown_s: Annotated[float, Field(ge=0, le=600, strict=True)] = 0.0
    primary: dict[str, Any] | None = None


class ServerSpec(Part):
    """What the user adds to the start of every server: words of its command, variables, patience.

    `silence_s`: how long an answer may bring nothing before its request has failed.
    """

    flags: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    start_timeout_s: Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)] = 600.0
    silence_s: Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)] = 600.0


class LoadSpec(Part):
    """How requests arrive in an open loop: `burstiness` 1 is Poisson, less comes in bursts, more is steadier."""

    burstiness: Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)] = 1.0


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
    base_url: BaseUrl | None = None
    server: ServerSpec = ServerSpec()
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    arms: dict[Name, Arm]
    workloads: tuple[str, ...]
    sweep: Sweep = Sweep()
    sampling: SamplingSpec = SamplingSpec()
    load: LoadSpec = LoadSpec()
    design: Design = Design()

    @property
    def most_new_tokens(self) -> int:
        """The longest answer that any cell asks for."""
        asked = (value or self.sampling.max_new_tokens for value in self.sweep.max_new_tokens)
        return max(asked)

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
        if self.load != LoadSpec() and self.sweep.request_rate == (None,):
            raise ValueError(
                "load: says how requests arrive in an open loop; add sweep.request_rate"
            )
        baseline = self.design.baseline
        if baseline is None and not any(arm.method == "ar" for arm in self.arms.values()):
            raise ValueError(
                "arms: there is no baseline; add `ar: {method: ar}` or set design.baseline"
            )
        if baseline is not None and baseline not in self.arms:
            raise ValueError(
                f"design.baseline: there is no arm '{baseline}'. {did_you_mean(baseline, self.arms)}"
            )
        if baseline is not None and self.arms[baseline].verify in LOSSY_RULES:
            raise ValueError(
                f"design.baseline: '{baseline}' verifies by {self.arms[baseline].verify}, which is lossy: no text"
                " can be held against its own"
            )
        return self


def load_spec(path: Path) -> Spec:
    """Read and validate the spec at `path`; its relative paths become absolute ones."""
    spec = read_part(path, Spec, remedy="Mend the file and run again.")
    return _anchored(spec, path.resolve().parent)


def overridden(spec: Spec, told: Mapping[str, Any]) -> Spec:
    """Return `spec` with the keys in `told` (`design.prompts`) set, but for those that are None; raises ConfigError."""
    # Only what was told: what a key was not given for stays a default, which a recipe may know better.
    content = spec.model_dump(exclude_unset=True)
    for key, value in told.items():
        if value is not None:
            *parts, last = key.split(".")
            place = content
            for part in parts:
                if key.startswith("arms.") and part not in ("arms", *spec.arms):
                    raise ConfigError(
                        f"on the command line: there is no arm '{part}'.",
                        remedy=did_you_mean(part, spec.arms),
                    )
                place = place.setdefault(part, {})
            place[last] = value
    try:
        return Spec.model_validate(content)
    except ValidationError as error:
        raise ConfigError(
            f"on the command line: {explain(error, Spec)}", remedy="Correct the option."
        ) from None


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
            "runner": placed(spec.runner) if is_path(spec.runner) else spec.runner,
        }
    )


def _is_file_path(value: str) -> bool:
    """A model is a file path if it says so: `Qwen/Qwen3-8B` is a hub id, `./mine` and `/models/x` are paths."""
    return value.startswith(("./", "../", "/", "~"))
