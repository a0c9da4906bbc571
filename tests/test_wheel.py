"""What a user installs holds everything that a checkout does: recipes, workloads, templates and the small models."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ("runners", "workloads", "reports")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def tracked(folder: str) -> set[str]:
    """Return the files that git tracks below `folder`."""
    found = subprocess.run(
        ["git", "ls-files", folder], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return set(found.stdout.split())


def test_every_declarative_file_and_every_model_is_in_the_wheel(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    expected = {f"dflash_bench/assets/{path}" for kind in ASSETS for path in tracked(kind)}
    expected |= tracked("dflash_bench")
    assert expected
    assert expected <= inside


def test_the_wheel_takes_one_name_only(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"dflash_bench"}


def test_an_unpacked_wheel_knows_its_workloads_from_any_folder(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    done = subprocess.run(
        [sys.executable, "-m", "dflash_bench", "list", "workloads"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "gsm8k" in done.stdout
