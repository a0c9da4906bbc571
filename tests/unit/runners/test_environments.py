"""An environment is whole or begun afresh, and nothing that we did not make is ever deleted."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dflash_bench.errors import ConfigError, InfrastructureError
from dflash_bench.runners import environments, install, machine
from dflash_bench.runners.environments import create, find, listed, python_of, remove
from dflash_bench.spec import Spec
from tests.unit.runners.recipes import SMALL, small

# Stands for a Python whose `-m venv FOLDER` makes an environment at once: a link to this interpreter.
QUICK = f"""#!/bin/sh
mkdir -p "$3/bin" && ln -s {sys.executable} "$3/bin/python"
"""


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("DFLASH_BENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(machine, "gpus", list)
    return tmp_path / "home"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "quick-python"
    program.write_text(QUICK)
    program.chmod(0o755)
    monkeypatch.setattr(environments, "interpreter", lambda versions: program)


def variants(**kinds: dict[str, Any]) -> dict[str, Any]:
    return {"install": {**SMALL["install"], "variants": kinds}, "start": None}


def test_a_real_environment_is_made_offline_and_runs(home: Path, tmp_path: Path) -> None:
    said: list[str] = []
    code = "from pathlib import Path; Path('built').write_text('x')"
    recipe = small(tmp_path, **variants(cpu={"commands": [["python", "-c", code]]}))
    made = create(recipe, say=said.append)
    assert (made.name, made.variant, made.version) == ("small", "cpu", "1.2.3")
    assert (home / "envs" / "small" / "built").exists()
    prefix = [str(python_of(recipe)), "-c", "import sys; print(sys.prefix)"]
    ran = subprocess.run(prefix, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(made.folder)
    assert any(line.startswith("$ ") and "-m venv" in line for line in said)
    assert find("small") == made


@pytest.mark.usefixtures("quick")
def test_a_whole_environment_is_kept_unless_forced(tmp_path: Path) -> None:
    recipe = small(tmp_path)
    first = create(recipe, say=lambda line: None)
    (first.folder / "mine").touch()
    said: list[str] = []
    assert create(recipe, say=said.append) == first
    assert "is there already" in said[0]
    assert (first.folder / "mine").exists()
    create(recipe, force=True, say=lambda line: None)
    assert not (first.folder / "mine").exists()


@pytest.mark.usefixtures("quick")
def test_a_step_that_fails_shows_the_log_and_leaves_no_whole_environment(
    home: Path, tmp_path: Path
) -> None:
    code = "import sys; print('compiling'); sys.exit('no compiler')"
    recipe = small(tmp_path, **variants(cpu={"commands": [["python", "-c", code]]}))
    with pytest.raises(InfrastructureError, match="exit code 1") as caught:
        create(recipe, say=lambda line: None)
    assert "compiling\nno compiler" in caught.value.message
    assert str(home / "logs" / "env-small.log") in caught.value.remedy
    assert listed() == {"small": None}
    with pytest.raises(ConfigError, match="is not installed"):
        python_of(recipe)
    mended = small(tmp_path)
    assert create(mended, say=lambda line: None).version == "1.2.3"
    assert python_of(mended).exists()


@pytest.mark.usefixtures("quick")
def test_a_version_that_is_not_told_is_not_an_environment(tmp_path: Path) -> None:
    silent = {**SMALL["install"], "version": ["python", "-c", "pass"]}
    with pytest.raises(InfrastructureError, match="printed nothing"):
        create(small(tmp_path, install=silent), say=lambda line: None)
    assert find("small") is None


@pytest.mark.usefixtures("quick")
def test_a_recipe_of_other_packages_wants_another_environment(tmp_path: Path) -> None:
    create(small(tmp_path), say=lambda line: None)
    other = small(tmp_path, **variants(cpu={"env": {"PIP_X": 1}}))
    for ask in (python_of, create):
        with pytest.raises(ConfigError, match="has changed since it was made") as caught:
            ask(other)
        assert "--force" in caught.value.remedy


def test_the_remedy_is_the_command(tmp_path: Path) -> None:
    recipe = small(tmp_path)
    with pytest.raises(ConfigError, match="environment of small is not installed") as caught:
        python_of(recipe)
    assert caught.value.remedy == f"Run `dflash-bench env create {tmp_path / 'small.yaml'}`."


def test_a_recipe_without_an_environment_says_so(tmp_path: Path) -> None:
    recipe = small(tmp_path, install=None, start=None)
    assert environments.values(recipe) == {"python": None, "env": None}
    assert environments.variant_of(recipe) is None
    with pytest.raises(ConfigError, match="small has no environment of its own"):
        create(recipe)


@pytest.mark.usefixtures("quick")
def test_remove_deletes_what_we_made(home: Path, tmp_path: Path) -> None:
    made = create(small(tmp_path), say=lambda line: None)
    assert remove("small") == made.folder
    assert not made.folder.exists()
    assert listed() == {}
    with pytest.raises(ConfigError, match="there is no environment 'small'"):
        remove("small")


# Makes an environment in a process of its own; it is whole when the file that is named last is there.
MAKER = """
import sys, time
from pathlib import Path
from dflash_bench.runners import environments
from dflash_bench.runners.recipe import load_recipe

class Installer:
    def __init__(self, folder, python, log, say):
        self.folder = folder

    def install(self, install, variant, recipe):
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "python").touch()
        (self.folder / "begun").touch()
        while not Path(sys.argv[2]).exists():
            time.sleep(0.01)
        return "1.2.3", ()

environments.Installer = Installer
environments.create(load_recipe(sys.argv[1]), say=lambda line: print(line, flush=True))
"""


def test_two_makers_of_one_environment_take_turns(home: Path, tmp_path: Path) -> None:
    small(tmp_path)
    go = tmp_path / "go"
    words = [sys.executable, "-c", MAKER, str(tmp_path / "small.yaml"), str(go)]
    first = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    begun = home / "envs" / "small" / "begun"
    while not begun.exists() and first.poll() is None:
        time.sleep(0.01)
    with pytest.raises(ConfigError, match="small is being made or removed by another process"):
        remove("small")
    second = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert second.stdout is not None
    assert "waiting for another process" in second.stdout.readline()
    go.touch()
    first.communicate()
    said, _ = second.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    assert "is there already" in said, "it was made once"
    assert begun.exists()
    assert list(listed()) == ["small"]
    remove("small")


def test_a_foreign_folder_is_never_deleted(home: Path, tmp_path: Path) -> None:
    mine = home / "envs" / "small"
    mine.mkdir(parents=True)
    (mine / "thesis.tex").touch()
    for act in (lambda: remove("small"), lambda: create(small(tmp_path), force=True)):
        with pytest.raises(ConfigError, match="was not made by"):
            act()
    assert (mine / "thesis.tex").exists()
    assert listed() == {}


@pytest.mark.parametrize("name", ["..", ".", "", "../envs", "../../other"])
def test_remove_stays_among_the_environments(home: Path, tmp_path: Path, name: str) -> None:
    other = tmp_path / "other"
    for folder in (other, home, home / "envs"):
        folder.mkdir(parents=True)
        (folder / environments.MARKER).touch()
    with pytest.raises(ConfigError):
        remove(name)
    assert other.exists()
    assert (home / "envs").exists()


def test_a_link_to_an_environment_is_not_ours(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / environments.MARKER).touch()
    (home / "envs").mkdir(parents=True)
    (home / "envs" / "small").symlink_to(other)
    with pytest.raises(ConfigError, match="was not made by"):
        remove("small")
    assert other.exists()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"name": 5}', "{"])
def test_facts_that_are_not_whole_are_no_environment(home: Path, text: str) -> None:
    folder = home / "envs" / "small"
    folder.mkdir(parents=True)
    (folder / environments.MARKER).touch()
    (folder / environments.FACTS).write_text(text)
    assert listed() == {"small": None}


@pytest.mark.usefixtures("quick")
def test_facts_hold_every_package(home: Path, tmp_path: Path) -> None:
    made = create(small(tmp_path), say=lambda line: None)
    facts = json.loads((made.folder / environments.FACTS).read_text())
    assert facts["packages"] == list(made.packages)
    assert facts["recipe"] == str(tmp_path / "small.yaml")


@pytest.mark.parametrize(
    ("machine_is", "recipe_has", "chosen"),
    [
        (["cuda", "cpu"], ["cpu", "cuda"], "cuda"),
        (["cuda", "cpu"], ["cpu"], "cpu"),
        (["cpu"], ["cpu", "cuda"], "cpu"),
        (["metal", "cpu"], ["metal", "cpu"], "metal"),
        (["cpu"], ["rocm"], "rocm"),
    ],
)
def test_the_variant_is_the_machines_best(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    machine_is: list[str],
    recipe_has: list[str],
    chosen: str,
) -> None:
    monkeypatch.setattr(machine, "variants", lambda: machine_is)
    recipe = small(tmp_path, **variants(**{name: {} for name in recipe_has}))
    assert environments.choose_variant(recipe) == chosen


def test_a_machine_that_no_variant_is_for_is_told(tmp_path: Path) -> None:
    recipe = small(tmp_path, **variants(cuda={}))
    with pytest.raises(ConfigError, match=r"none of its variants \(cuda\) is for this machine"):
        environments.choose_variant(recipe)
    assert environments.choose_variant(recipe, "cuda") == "cuda"
    with pytest.raises(ConfigError, match=r"install\.variants has no 'cude'"):
        environments.choose_variant(recipe, "cude")


@pytest.mark.parametrize(
    ("device", "variant", "fits"),
    [
        ("cpu", "cpu", True),
        ("cuda", "cuda", True),
        ("cuda:1", "cuda", True),
        ("metal", "metal", True),
        ("cpu", "cuda", False),
        ("cuda", "cpu", False),
        ("cpu", "metal", False),
        ("xpu", "rocm", True),
        ("cuda", None, True),
    ],
)
def test_a_device_that_the_variant_does_not_run_on_is_refused(
    device: str, variant: str | None, fits: bool
) -> None:
    content = {"name": "x", "runner": "vllm", "target": "lab", "workloads": ["w"]}
    spec = Spec.model_validate({**content, "arms": {"ar": {"method": "ar"}}, "device": device})
    if fits:
        environments.check_device_of(spec, variant)
        return
    with pytest.raises(ConfigError, match=f"device: is {device}, .* the variant {variant}") as told:
        environments.check_device_of(spec, variant)
    assert f"Set device: {variant}" in told.value.remedy


def test_this_python_is_taken_where_it_fits() -> None:
    assert install.interpreter(">=3.9") == Path(sys.executable)


def test_another_python_of_the_path_is_taken_where_this_one_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for minor, prints in ((20, "exit 1"), (19, "echo 3.19.2"), (18, "echo 3.18.0")):
        program = tmp_path / f"python3.{minor}"
        program.write_text(f"#!/bin/sh\n{prints}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) + ":/bin")
    assert install.interpreter(">=3.18,<3.21") == tmp_path / "python3.19"
    with pytest.raises(ConfigError, match=r"no Python >=3\.21"):
        install.interpreter(">=3.21")
    with pytest.raises(ConfigError, match="is not a set of versions"):
        install.interpreter("newest")
