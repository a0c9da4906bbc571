"""What one arm is: a drafting method with its settings, and the rule by which its drafts are judged.

Every setting is optional, and an absent one is the method's own default. Which of them a method has is the runner's to
say (`engine/registry.py`); here they only have to be meant: whole numbers where numbers are counted, names that exist.
"""

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from dflash_bench.spec.declarative import Part

Positive = Annotated[int, Field(ge=1, strict=True)]
BlockSize = Annotated[int, Field(ge=2, strict=True)]
Seed = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
Penalty = Annotated[float, Field(ge=-2, le=2, strict=True, allow_inf_nan=False)]

RepetitionPenalty = Annotated[float, Field(gt=0, le=10, strict=True, allow_inf_nan=False)]

BaseUrl = Annotated[str, Field(pattern=r"^https?://[^\s/@?]+(/[^\s@?]*)?$")]
"""Where a server answers, such as http://127.0.0.1:8000; a password has no place in what is recorded."""

Rule = Literal["match", "reject", "typical"]
"""How drafts are judged: `match` and `reject` keep the target's law, `typical` does not."""
RULES: tuple[Rule, ...] = get_args(Rule)
LOSSY_RULES: frozenset[Rule] = frozenset({"typical"})


class TreeSpec(Part):
    """A tree of drafts instead of a chain: `top_k` branches at a node, `depth` drafts at most on a path."""

    top_k: Positive | None = None
    depth: Positive | None = None


class Arm(Part):
    """A named method with its settings; `block_size` counts the anchor and overrides the sweep's axis.

    verify          the rule of this arm, instead of the sampling's
    tree            draft a tree; `block_size` then is its most nodes, the anchor counted
    verify_length   the nodes of a block that are verified, the anchor counted; the rest are drafted in vain
    denoise_steps   passes in which a DFlash block is filled
    noise           what such a block starts from, and `noise_schedule` how it fades
    ngram_min, ngram_max   tokens of the run that is looked up in the text so far
    matched         of plain decoding: under the settings that this method forces on a backend (graph mode, scheduling,
                    limits), so that what speculation costs in features can be told from what drafting gains
    options         the backend's own settings of the method, in its own words
    flags           further words of the command that starts the arm's server
    base_url        a server that already runs, for this arm
    """

    method: str
    draft: str | None = None
    block_size: BlockSize | None = None
    verify: Rule | None = None
    tree: TreeSpec | None = None
    verify_length: BlockSize | None = None
    denoise_steps: Positive | None = None
    noise: Literal["mask", "gaussian"] | None = None
    noise_schedule: Literal["cosine", "linear"] | None = None
    ngram_min: Positive | None = None
    ngram_max: Positive | None = None
    matched: str | None = None
    options: dict[str, Any] | None = None
    flags: tuple[str, ...] | None = None
    base_url: BaseUrl | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """What is set beside method, draft, block size and rule, as plain values."""
        told = self.model_dump(exclude={"method", "draft", "block_size", "verify", "base_url"})
        return {name: value for name, value in told.items() if value is not None}

    @model_validator(mode="after")
    def _drafts_or_does_not(self) -> "Arm":
        drafting = set(Arm.model_fields) - {"method", "matched", "options", "flags", "base_url"}
        told = [name for name, value in self if name in drafting and value is not None]
        if self.method == "ar" and told:
            raise ValueError(f"method ar drafts nothing, so it has no {' and no '.join(told)}")
        if self.method != "ar" and self.matched is not None:
            raise ValueError(f"matched is for plain decoding (method ar), not for {self.method}")
        return self

    @model_validator(mode="after")
    def _fits_itself(self) -> "Arm":
        for lesser, greater in (("verify_length", "block_size"), ("ngram_min", "ngram_max")):
            low, high = getattr(self, lesser), getattr(self, greater)
            if low is not None and high is not None and low > high:
                raise ValueError(f"{lesser} {low} is above {greater} {high}")
        return self


class SamplingSpec(Part):
    """How tokens are chosen, and when a request ends. Every arm has the same, AR included, but for `verify`.

    `top_k` (0 is all) and `top_p` (1 is all) cut the target's law; the penalties are those that engines share by name:
    repetition divides logits (1 is none), presence and frequency are subtracted from them (0 is none).
    """

    max_new_tokens: Positive = 128
    seed: Seed = 0
    verify: Literal["match", "reject"] = "match"
    top_k: Annotated[int, Field(ge=0, strict=True)] = 0
    top_p: Annotated[float, Field(gt=0, le=1, strict=True)] = 1.0
    repetition_penalty: RepetitionPenalty = 1.0
    presence_penalty: Penalty = 0.0
    frequency_penalty: Penalty = 0.0
