"""A server from its recipe to its end: real processes, a fake model behind them."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml

from dflash_bench.errors import ConfigError, InfrastructureError
from dflash_bench.plan import Cell, PlannedArm, make_plan
from dflash_bench.runners import folders
from dflash_bench.runners.base import Load, Opening
from dflash_bench.runners.openai import make
from dflash_bench.runners.recipe import load_recipe
from dflash_bench.runners.server.runner import ServerRunner
from tests.fakes.served import Served
from tests.fakes.serving import AR, DFLASH, asked, recipe, requests, runner, spec


def test_a_started_server_is_asked_and_gone_afterwards(tmp_path: Path) -> None:
    made = runner(tmp_path)
    opening = Opening(batch_size=2, positions=64, log=tmp_path / "logs" / "s.log")
    session = made.open(DFLASH, opening)
    process = psutil.Process(session.pid or 0)
    answers, totals = asked(session)
    session.close()
    assert not process.is_running()
    assert [answer.error for answer in answers] == [None] * 6
    assert totals.backend["version"] == "0.0.1"
    assert totals.backend["flags"][-2:] == ["--num-draft-tokens", "3"]
    assert "serving on port" in (tmp_path / "logs" / "s.log").read_text()
    assert "complaints" not in totals.backend
    assert made.models()["target"]["sha256"]
    assert made.max_positions == 1024


def test_a_server_that_dies_during_a_visit_ends_it_with_its_log(tmp_path: Path) -> None:
    session = runner(tmp_path).open(AR, Opening(log=tmp_path / "s.log"))

    def visit_and_kill() -> None:
        for _ in session.run(requests(40), Load(2)):
            with suppress(ProcessLookupError):  # killed already
                os.kill(session.pid or 0, signal.SIGKILL)

    try:
        found = r"(?s)during a visit of arm ar.*serving on port"
        with pytest.raises(InfrastructureError, match=found):
            visit_and_kill()
    finally:
        session.close()


def test_a_server_that_dies_beside_visits_is_told_with_its_log(tmp_path: Path) -> None:
    made = runner(tmp_path)
    for when, count in (("before", 0), ("after", 3)):
        session = made.open(AR, Opening(log=tmp_path / f"{when}.log"))
        try:
            visit = session.run(requests(3), Load(1))
            for _ in range(count):
                next(visit)
            os.kill(session.pid or 0, signal.SIGKILL)
            found = rf"(?s){when} a visit of arm ar.*serving on port"
            with pytest.raises(InfrastructureError, match=found):
                list(visit)
        finally:
            session.close()


def test_a_flush_of_our_own_server_that_fails_is_complained_of(tmp_path: Path) -> None:
    flush = {"path": "/reset_prefix_cache", "ok": "emptied"}
    session = runner(tmp_path, flush=flush).open(AR, Opening(log=tmp_path / "s.log"))
    try:
        _, totals = asked(session)
    finally:
        session.close()
    assert totals.backend["complaints"] == [
        "the prefix cache was not emptied: /reset_prefix_cache answered '{\"success\": true}'"
    ]


def test_a_server_that_does_not_start_shows_its_log_and_leaves_nothing(tmp_path: Path) -> None:
    start = recipe()["start"]
    start["command"] = [sys.executable, "-c", "print('no such flag {port}'); raise SystemExit(3)"]
    made = runner(tmp_path, start=start)
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with pytest.raises(InfrastructureError, match=r"(?s)exit code 3.*no such flag"):
        made.open(AR, Opening(log=tmp_path / "s.log"))
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


def test_a_plain_openai_server_is_asked_for_text(served: Served, url: str) -> None:
    served.plain = True
    served.model = "m"
    arms = {"ar": {"method": "ar"}, "two": {"method": "dflash", "base_url": url}}
    made = make(spec(base_url=url + "/v1", arms=arms))
    made.start()
    planned = PlannedArm(name="two", method="dflash", base_url=url)
    answers, totals = asked(made.open(planned, Opening()), Load(1))
    assert (served.seen[0]["prompt"], served.seen[0]["model"]) == ("xyz", "m")
    for answer in answers:
        assert answer.error is None
        assert answer.output_ids is None
        assert answer.output_text
        assert answer.output_tokens is not None
        assert answer.ttft_s is not None
        assert answer.acceptance is None
        assert answer.window is not None
        assert answer.window.steps is None
    assert totals.acceptance is None
    assert totals.backend["model"] == "m"
    (doubt,) = totals.backend["complaints"]
    assert "asked for model 'm', and the target is 'markov'" in doubt


def test_a_recipe_of_the_users_names_the_model_of_the_users_server(
    tmp_path: Path, served: Served, url: str
) -> None:
    made = runner(tmp_path, url, ask={"dialect": "vllm", "model": "mine-{dtype}"})
    asked(made.open(DFLASH, Opening()), count=1)
    assert served.seen[0]["model"] == "mine-float32"
    served.model = "/somewhere/markov"
    made = runner(tmp_path, url)
    _, totals = asked(made.open(DFLASH, Opening()), count=1)
    assert served.seen[1]["model"] == totals.backend["model"] == "/somewhere/markov"
    assert "complaints" not in totals.backend


def test_a_server_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="no server answers"):
        runner(tmp_path, "http://127.0.0.1:9").open(AR, Opening())


def test_openai_needs_addresses() -> None:
    with pytest.raises(ConfigError, match=r"arms\.ar\.base_url: is missing") as refused:
        make(spec())
    assert "then arms are servers" in refused.value.remedy


def test_what_only_a_start_can_do_is_refused_of_a_server_that_runs(
    tmp_path: Path, url: str
) -> None:
    path = tmp_path / "fake.yaml"
    path.write_text(yaml.safe_dump(recipe()))
    arms = {"ar": {"method": "ar", "flags": ["--x"]}, "b": {"method": "dflash"}}
    with pytest.raises(ConfigError, match=r"arms\.ar\.flags: says how a server is started"):
        ServerRunner(spec(base_url=url, arms=arms), load_recipe(path))
    cell = Cell(
        workload="w",
        batch_size=1,
        context_length=None,
        temperature=0.0,
        target_quantization="int8",
    )
    found = ServerRunner(spec(base_url=url), load_recipe(path)).refusal(AR, cell)
    assert "has the weights that it has" in (found or "")


def test_one_server_is_not_compared_with_itself(tmp_path: Path) -> None:
    path = tmp_path / "fake.yaml"
    path.write_text(yaml.safe_dump(recipe()))
    arms = {
        "ar": {"method": "ar", "base_url": "http://localhost:8000"},
        "same": {"method": "dflash", "base_url": "http://127.0.0.1:8000/v1"},
        "other": {"method": "dflash", "base_url": "http://127.0.0.1:8001"},
    }
    made = ServerRunner(spec(arms=arms), load_recipe(path))
    cell = Cell(workload="w", batch_size=1, context_length=None, temperature=0.0)
    said = {name: made.refusal(arm, cell) for name, arm in make_plan(made.spec).arms.items()}
    assert said == {
        "ar": None,
        "same": "base_url: the same server as the baseline's, so there is nothing to compare",
        "other": None,
    }


def test_one_server_has_one_block_size(tmp_path: Path) -> None:
    path = tmp_path / "fake.yaml"
    path.write_text(yaml.safe_dump(recipe()))
    arms = {
        "ar": {"method": "ar"},
        "b": {"method": "dflash", "base_url": "http://127.0.0.1:8001"},
    }
    swept = spec(arms=arms, sweep={"block_size": [4, 8]})
    with pytest.raises(ConfigError, match=r"sweep\.block_size: \[4, 8\], and arm b is one server"):
        ServerRunner(swept, load_recipe(path))
    ServerRunner(spec(arms=arms, sweep={"block_size": [4]}), load_recipe(path))


def test_an_unknown_dialect_is_refused_before_anything_starts(tmp_path: Path) -> None:
    path = tmp_path / "fake.yaml"
    path.write_text(yaml.safe_dump(recipe(ask={"dialect": "vlm"})))
    with pytest.raises(ConfigError, match=r"ask\.dialect: there is no dialect 'vlm'") as refused:
        ServerRunner(spec(), load_recipe(path))
    assert "Did you mean 'vllm'?" in refused.value.remedy


def test_what_reads_counters_is_required(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "find_spec", lambda name: None if "prom" in name else object())
    with pytest.raises(ConfigError, match="need prometheus_client"):
        runner(tmp_path)


def test_a_recipe_refuses_what_it_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "fake.yaml"
    path.write_text(yaml.safe_dump(recipe()))
    made = ServerRunner(spec(), load_recipe(path))
    cell = Cell(workload="w", batch_size=1, context_length=None, temperature=0.0)
    assert made.refusal(AR, cell) is None
    assert "no method 'medusa'" in (made.refusal(PlannedArm(name="m", method="medusa"), cell) or "")
    int4 = cell.model_copy(update={"target_quantization": "int4"})
    assert "int4" in (made.refusal(AR, int4) or "")


def test_the_key_goes_to_the_server_and_into_no_record(
    tmp_path: Path, served: Served, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DFLASH_BENCH_API_KEY", "hush-hush")
    made = runner(tmp_path, url)
    answers, totals = asked(made.open(DFLASH, Opening()), count=2)
    assert served.keys == {"Bearer hush-hush"}
    assert "hush" not in str(made.facts()) + totals.model_dump_json() + str(answers)
