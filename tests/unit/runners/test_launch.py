"""The command that starts a backend is exactly what the recipe and the choices say, word for word."""

from pathlib import Path
from typing import Any

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.plan import PlannedArm
from dflash_bench.runners.launch import Value, arm_values, fill, launch, refusal
from tests.unit.runners.recipes import SMALL, small

VALUES: dict[str, Value] = {"python": "/env/bin/python", "port": 8123, "target": Path("/models/t")}


def arm(**fields: Any) -> PlannedArm:
    fields = {"method": "dflash", "draft": "/models/d", "num_draft_tokens": 15, **fields}
    return PlannedArm(name="arm", block_size=16, **fields)


def started(folder: Path, planned: PlannedArm, **choices: Any) -> list[str]:
    values: dict[str, Value] = {**VALUES, **arm_values(planned)}
    choices = {"variant": "cpu", "method": planned.method, "dtype": "float32", **choices}
    return list(launch(small(folder), values, **choices).argv)


def test_each_choice_adds_its_words_in_order(tmp_path: Path) -> None:
    assert started(tmp_path, arm(), quantization="int8", flags=["--seed", "1"]) == [
        *("/env/bin/python", "-m", "small", "--port", "8123", "--model", "/models/t"),
        *("--eager", "--dtype", "float32", "--bits", "8"),
        *("--speculative-config", '{"method": "dflash", "model": "/models/d"}'),
        *("--draft-tokens", "15", "--seed", "1"),
    ]


def test_a_flag_in_an_inner_list_is_left_out_with_its_value(tmp_path: Path) -> None:
    words = started(tmp_path, arm(num_draft_tokens=None))
    assert "--draft-tokens" not in words


def test_a_value_that_is_not_given_is_refused_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"start\.methods\.dflash: needs \{draft\}"):
        started(tmp_path, arm(draft=None))


def test_python_as_the_first_word_is_the_environments(tmp_path: Path) -> None:
    start = {**SMALL["start"], "command": ["python", "-m", "python", "--port", "{port}"]}
    plain = arm_values(PlannedArm(name="ar", method="ar"))
    made = launch(
        small(tmp_path, start=start),
        {**VALUES, **plain},
        variant=None,
        method="ar",
        dtype="float32",
    )
    assert made.argv[:3] == ("/env/bin/python", "-m", "python")


def test_matched_plain_decoding_has_its_own_words(tmp_path: Path) -> None:
    plain = PlannedArm(name="ar", method="ar")
    assert started(tmp_path, plain)[-1] == "float32"
    assert started(tmp_path, plain, matched="dflash")[-1] == "--no-async"


def test_variables_of_the_spec_win_over_the_variants_and_these_over_the_recipes(
    tmp_path: Path,
) -> None:
    plain = arm_values(PlannedArm(name="ar", method="ar"))
    made = launch(
        small(tmp_path),
        {**VALUES, **plain},
        variant="cpu",
        method="ar",
        dtype="float32",
        env={"SMALL_GB": "8"},
    )
    assert made.env == {"SMALL_THREADS": "1", "SMALL_GB": "8"}


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"method": "medusa"}, "small has no method 'medusa'"),
        ({"dtype": "float16"}, "small is not started in float16"),
        ({"quantization": "int4"}, r"no target_quantization 'int4' \(it has int8\)"),
        ({"matched": "eagle3", "method": "ar"}, "no plain decoding matched to 'eagle3'"),
        ({"matched": "dflash"}, "no plain decoding matched to 'dflash'"),
    ],
)
def test_what_the_recipe_has_not_is_refused(
    tmp_path: Path, choices: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        started(tmp_path, arm(), **choices)


def test_what_the_recipe_has_is_not_refused(tmp_path: Path) -> None:
    assert refusal(small(tmp_path), "dflash", dtype="float32", quantization="int8") is None


def test_a_recipe_without_dtypes_takes_any(tmp_path: Path) -> None:
    recipe = small(tmp_path, start={**SMALL["start"], "dtype": {}})
    assert refusal(recipe, "ar", dtype="float16") is None


def test_an_unknown_placeholder_gets_a_suggestion() -> None:
    with pytest.raises(
        ConfigError, match=r"here: \{prot\} is not a placeholder. Did you mean 'port'"
    ):
        fill(("--port", "{prot}"), VALUES, "here")


def test_braces_of_json_and_values_stay_as_they_are() -> None:
    values: dict[str, Value] = {"draft": "/odd/{port}", "port": 1}
    assert fill(('{"a": {"b": {}}}', "{draft}"), values, "here") == (
        '{"a": {"b": {}}}',
        "/odd/{port}",
    )


def test_an_arms_settings_are_placeholders(tmp_path: Path) -> None:
    values = arm_values(arm(settings={"ngram_max": 3, "lookup": True, "options": {"a": 1}}))
    words = ("{ngram_max}", "{lookup}", "{options_json}", "{block_size}", "{method}")
    assert fill(words, values, "here") == ("3", "true", '{"a": 1}', "16", "dflash")


def test_a_setting_that_is_not_set_is_known_and_has_no_value() -> None:
    values = arm_values(arm(method="ngram", draft=None))
    words = ("--a", ("--size", "{ngram_max}"), ("--least", "{ngram_min}"))
    assert fill(words, values, "here") == ("--a",)
    with pytest.raises(ConfigError, match=r"needs \{ngram_max\}, which this arm does not give"):
        fill(("{ngram_max}",), values, "here")


def test_a_recipe_that_is_never_started_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no `start`") as caught:
        launch(small(tmp_path, start=None), VALUES, variant=None, method="ar", dtype="float32")
    assert "base_url" in caught.value.remedy
