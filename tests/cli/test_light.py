"""What must stay light: help imports nothing heavy, and whatever only reads needs no torch."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.scripted import write_spec

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "transformers", "pandas", "matplotlib", "scipy", "numpy", "pydantic")

# A finder that makes torch and transformers look as if they were not installed.
WITHOUT_TORCH = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "transformers", "safetensors", "tokenizers"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""


def python(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_help_imports_nothing_heavy() -> None:
    code = f"""
import sys
from dflash_bench.cli import main
sys.argv = ["dflash-bench", "--help"]
try:
    main()
finally:
    print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    done = python(code)
    assert done.returncode == 0
    assert "sweep" in done.stdout
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("kind", ["runners", "methods", "workloads", "models"])
def test_list_needs_no_torch(kind: str) -> None:
    done = python(WITHOUT_TORCH + "from dflash_bench.cli import main; main()", "list", kind)
    assert done.returncode == 0, done.stderr
    expected = {
        "runners": "reference",
        "methods": "dflash",
        "workloads": "sample-math",
        "models": "lab",
    }
    assert expected[kind] in done.stdout


def test_a_dry_run_on_the_reference_engine_needs_no_torch() -> None:
    code = WITHOUT_TORCH + "from dflash_bench.cli import main; main()"
    done = python(code, "sweep", "examples/quickstart.yaml", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "4 cells x 4 arms x 4 rounds" in done.stdout


def test_a_sweep_without_torch_says_what_to_install(tmp_path: Path) -> None:
    code = WITHOUT_TORCH + "from dflash_bench.cli import main; main()"
    done = python(code, "sweep", "examples/quickstart.yaml", "-o", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "pip install" in done.stderr


def test_a_report_needs_no_torch(tmp_path: Path) -> None:
    out = tmp_path / "out"
    fake = [sys.executable, "-m", "tests.fakes.cli", "sweep", str(write_spec(tmp_path))]
    subprocess.run([*fake, "-o", str(out)], cwd=ROOT, check=True, capture_output=True)
    done = python(WITHOUT_TORCH + "from dflash_bench.cli import main; main()", "report", str(out))
    assert done.returncode == 0, done.stderr


def test_methods_are_listed_with_what_can_be_asked_of_them() -> None:
    done = python("from dflash_bench.cli import main; main()", "list", "methods")
    table = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert table["method"][:4] == ["needs", "draft", "trees", "distribution"]
    assert table["eagle3"][:3] == ["yes", "yes", "yes"]
    assert table["dflash"][:3] == ["yes", "no", "yes"]
    assert table["ngram"][:3] == ["no", "no", "no"]
