"""What a user writes is taken exactly, or refused with a sentence that names the key, the value and the remedy."""

import re
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.errors import ConfigError
from dflash_bench.spec import load_spec, overridden
from tests.fakes.scripted import write_spec


def refused(folder: Path, **changes: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load_spec(write_spec(folder, **changes))
    return f"{caught.value.message} {caught.value.remedy}"


def drafting(**settings: Any) -> dict[str, Any]:
    return {"arms": {"ar": {"method": "ar"}, "d": {"method": "medusa"} | settings}}


def test_an_arm_tells_the_settings_that_were_written(tmp_path: Path) -> None:
    settings = {"tree": {"top_k": 4}, "block_size": 16, "verify": "reject", "draft": "x"}
    arm = load_spec(write_spec(tmp_path, **drafting(**settings))).arms["d"]
    assert arm.settings == {"tree": {"top_k": 4, "depth": None}}
    assert (arm.block_size, arm.verify, arm.draft) == (16, "reject", "x")


def test_a_spec_keeps_what_was_written_and_fills_in_defaults(tmp_path: Path) -> None:
    spec = load_spec(write_spec(tmp_path))
    assert spec.baseline == "ar"
    assert spec.sweep.temperature == (0.0,)
    assert spec.design.delta == 0.05
    assert spec.threads == 1


def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    spec = load_spec(write_spec(tmp_path, target="./models/mine"))
    assert spec.workloads == (str(tmp_path / "mine.jsonl"),)
    assert spec.target == str(tmp_path / "models" / "mine")


def test_a_home_folder_is_expanded(tmp_path: Path) -> None:
    spec = load_spec(write_spec(tmp_path, target="~/mine", data_dir="~/data"))
    assert spec.target == str(Path.home() / "mine")
    assert spec.data_dir == str(Path.home() / "data")


def test_an_anchor_can_be_merged_and_overridden(tmp_path: Path) -> None:
    path = write_spec(tmp_path)
    text = path.read_text().replace("sampling: {}", "")
    arms = (
        "arms:\n  ar: {method: ar}\n  a: &a {method: dflash, draft: x}\n  b: {<<: *a, draft: y}\n"
    )
    path.write_text(re.sub(r"arms:\n(  .*\n)+", arms, text))
    drafts = {name: arm.draft for name, arm in load_spec(path).arms.items()}
    assert drafts == {"ar": None, "a": "x", "b": "y"}


def test_a_hub_id_is_no_path(tmp_path: Path) -> None:
    assert load_spec(write_spec(tmp_path, target="Qwen/Qwen3-8B")).target == "Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"smapling": {}}, ["smapling", "Did you mean 'sampling'?"]),
        ({"sampling": {"max_new_token": 3}}, ["sampling.max_new_token", "'max_new_tokens'"]),
        ({"arms": {"ar": {"metod": "ar"}}}, ["arms.ar.metod", "Did you mean 'method'?"]),
        ({"sweep": {"block_size": [1]}}, ["sweep.block_size.0", "greater than or equal to 2"]),
        ({"sweep": {"block_size": [0]}}, ["sweep.block_size.0", "found 0"]),
        ({"sweep": {"block_size": [-4]}}, ["sweep.block_size.0", "found -4"]),
        ({"sweep": {"batch_size": [0]}}, ["sweep.batch_size.0", "found 0"]),
        ({"sweep": {"batch_size": []}}, ["sweep.batch_size", "empty list"]),
        ({"sweep": {"batch_size": [1, 1]}}, ["sweep.batch_size", "twice"]),
        ({"sweep": {"batch_size": [1.5]}}, ["sweep.batch_size.0", "1.5"]),
        ({"sweep": {"temperature": [-1]}}, ["sweep.temperature.0", "found -1"]),
        ({"sweep": {"temperature": [float("nan")]}}, ["sweep.temperature.0"]),
        ({"workloads": []}, ["workloads", "at least one"]),
        ({"arms": {"dflash": {"method": "dflash"}}}, ["no baseline"]),
        ({"design": {"baseline": "arr"}}, ["design.baseline", "Did you mean 'ar'?"]),
        ({"workloads": "sample-math"}, ["workloads: must be a list"]),
        ({"sweep": {"block_size": 8}}, ["sweep.block_size: must be a list"]),
        ({"arms": {"ar": "ar"}}, ["arms.ar: must be a mapping"]),
        ({"arms": {"ar": {"method": "ar", "draft": "lab"}}}, ["arms.ar", "drafts nothing"]),
        ({"arms": {"ar": {"method": "ar", "verify": "reject"}}}, ["arms.ar", "no verify"]),
        (drafting(verify="hope"), ["arms.d.verify", "'typical'", "found 'hope'"]),
        (drafting(tree={"topk": 4}), ["arms.d.tree.topk", "Did you mean 'top_k'?"]),
        (drafting(tree={"depth": 0}), ["arms.d.tree.depth", "found 0"]),
        (drafting(tree=4), ["arms.d.tree: must be a mapping"]),
        (drafting(verify_length=1), ["arms.d.verify_length", "found 1"]),
        (drafting(verify_length=9, block_size=8), ["arms.d", "verify_length 9 is above block_s"]),
        (drafting(ngram_min=3, ngram_max=2), ["arms.d", "ngram_min 3 is above ngram_max 2"]),
        (drafting(noise="pink"), ["arms.d.noise", "'gaussian'"]),
        ({"sampling": {"verify": "typical"}}, ["sampling.verify", "found 'typical'"]),
        ({"sampling": {"top_p": 0}}, ["sampling.top_p", "found 0"]),
        ({"sampling": {"top_k": -1}}, ["sampling.top_k", "found -1"]),
        ({"sampling": {"repetition_penalty": 0}}, ["sampling.repetition_penalty", "found 0"]),
        ({"sampling": {"presence_penalty": True}}, ["sampling.presence_penalty", "found True"]),
        ({"sampling": {"top_p": "0.9"}}, ["sampling.top_p: must be a number", "found '0.9'"]),
        ({"sweep": {"temperature": ["1"]}}, ["sweep.temperature.0: must be a number"]),
        (
            drafting(verify="typical") | {"design": {"baseline": "d"}},
            ["design.baseline: 'd' verifies by typical, which is lossy"],
        ),
        ({"design": {"seed": -1}}, ["design.seed", "found -1"]),
        ({"sampling": {"seed": True}}, ["sampling.seed", "found True"]),
        ({"name": "../up"}, ["name", "'../up'"]),
        ({"schema_version": 2}, ["schema_version", "found 2"]),
        ({"sampling": {"verify": "hope"}}, ["sampling.verify", "'match'"]),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], words: list[str]
) -> None:
    message = refused(tmp_path, **changes)
    assert str(tmp_path / "spec.yaml") in message
    for word in words:
        assert word in message


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text("schema_version: 1\nname: x\n")
    with pytest.raises(ConfigError, match="target: is missing"):
        load_spec(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: [", "line 1"),
        ("name: x\nname: y\n", "line 2: the key 'name' stands twice"),
        ("name: !!python/object/apply:os.system ['true']", "line 1"),
        ("- a\n- b\n", "no mapping"),
        ("1: x\n", "the key 1 is not a word"),
        ("", "no mapping"),
        ("name: 2024-99-99", "month must be in 1..12"),
        ("name: " + "[" * 3000, "recursion"),
        ("name: " + "9" * 5000, "is not YAML"),
    ],
)
def test_what_is_no_yaml_mapping_is_refused_with_its_line(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_spec(path)
    assert words in caught.value.message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: there is no such file"):
        load_spec(tmp_path / "nowhere.yaml")


def test_an_option_overrides_its_key_and_is_held_to_the_same_rules(tmp_path: Path) -> None:
    spec = load_spec(write_spec(tmp_path))
    told = overridden(spec, {"design.prompts": 3, "base_url": "http://127.0.0.1:8000"})
    assert (told.design.prompts, told.base_url) == (3, "http://127.0.0.1:8000")
    assert overridden(spec, {"design.prompts": None, "base_url": None}) == spec
    assert told.model_fields_set == spec.model_fields_set | {"base_url"}
    assert not told.server.model_fields_set
    with pytest.raises(ConfigError, match=r"on the command line: base_url: .* found 'localhost'"):
        overridden(spec, {"base_url": "localhost"})
    url = "http://127.0.0.1:2"
    assert overridden(spec, {"arms.dflash.base_url": url}).arms["dflash"].base_url == url
    with pytest.raises(ConfigError, match="there is no arm 'dflsh'"):
        overridden(spec, {"arms.dflsh.base_url": url})


def test_how_requests_arrive_needs_a_rate_at_which_they_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"load: .* add sweep\.request_rate"):
        load_spec(write_spec(tmp_path, load={"burstiness": 0.5}))
    sweep = {"request_rate": [2.0]}
    assert load_spec(write_spec(tmp_path, load={"burstiness": 0.5}, sweep=sweep))
