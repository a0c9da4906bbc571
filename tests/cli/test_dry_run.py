"""What `--dry-run` prints tells any two arms apart, and `list runners` is a line for each."""

from typing import Any

from click.testing import CliRunner

from dflash_bench.assets import names
from dflash_bench.cli import list as listing
from dflash_bench.cli.dry_run import plan_text
from dflash_bench.plan import make_plan
from dflash_bench.spec import Spec


def lines(**arms: dict[str, Any]) -> dict[str, str]:
    """Return the line of every arm by its name."""
    content = {"name": "x", "runner": "vllm", "target": "lab", "workloads": ["w"]}
    spec = Spec.model_validate({**content, "arms": {"ar": {"method": "ar"}, **arms}})
    text = plan_text(make_plan(spec).model_dump(mode="json"))
    told = text.partition("arms\n")[2].partition("\n\n")[0].splitlines()
    return {line.strip().partition(":")[0]: line.strip() for line in told}


def test_a_plain_arm_shows_what_is_set() -> None:
    flags = {"method": "ar", "flags": ["--seed", "1", "--api-key", "s3cret"]}
    url = {"method": "ar", "base_url": "http://127.0.0.1:8000"}
    shown = lines(twin={"method": "ar", "matched": "dflash"}, flagged=flags, there=url)
    assert shown == {
        "ar": "ar: method ar",
        "twin": "twin: method ar, matched dflash",
        "flagged": "flagged: method ar, flags --seed 1 --api-key (not written down)",
        "there": "there: method ar, base_url http://127.0.0.1:8000",
    }


def test_a_drafting_arm_shows_what_is_set() -> None:
    tree = {"method": "eagle3", "draft": "lab", "block_size": 8, "tree": {"top_k": 4}}
    options = {"method": "dflash", "draft": "lab", "options": {"a": 1}, "base_url": "http://h:1"}
    shown = lines(tree=tree, options=options)
    assert shown["tree"] == (
        "tree: method eagle3, draft lab, block_size 8, num_draft_tokens 7, tree top_k 4, verify match"
    )
    assert shown["options"] == (
        "options: method dflash, draft lab, block_size is the method's own, options a 1, verify match,"
        " base_url http://h:1"
    )


def test_every_runner_is_one_line() -> None:
    printed = CliRunner().invoke(listing.command, ["runners"]).stdout.splitlines()
    assert [line.split()[0] for line in printed] == names("runners")


def test_how_often_a_backend_is_started_is_said_where_it_is() -> None:
    arms = {"ar": {"method": "ar"}, "d": {"method": "dflash", "draft": "x", "block_size": 4}}
    spec = Spec.model_validate({"name": "x", "target": "lab", "workloads": ["w"], "arms": arms})
    started = plan_text(make_plan(spec, nesting="start").model_dump(mode="json"))
    assert "12 starts of the backend" in started
    assert "starts of the backend" not in plan_text(make_plan(spec).model_dump(mode="json"))
