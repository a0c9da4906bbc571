"""The documents speak of what is there."""

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dflash_bench.cli import VERBS, main_group
from dflash_bench.plan import make_plan
from dflash_bench.runners.registry import make_runner
from dflash_bench.spec import Spec, load_spec

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
STRUCTURE = (ROOT / "docs" / "structure.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")]


def test_every_module_has_its_line_in_the_structure() -> None:
    package = ROOT / "dflash_bench"
    modules = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
    }
    assert set(re.findall(r"^\| `([^`]+\.py)` \|", STRUCTURE, re.MULTILINE)) == modules


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)", path.read_text(encoding="utf-8")):
        if not link.startswith("http"):
            assert (path.parent / link).exists(), link


def test_the_readmes_config_is_a_valid_spec() -> None:
    block = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)
    assert block is not None
    spec = Spec.model_validate(yaml.safe_load(block.group(1)))
    assert len(make_plan(spec).cells) == 2 * 2 * 2 * 2


def test_the_readme_uses_only_verbs_that_exist() -> None:
    used = set(re.findall(r"^dflash-bench (\w+)", README, re.MULTILINE))
    assert used
    assert used <= set(VERBS)


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_explains_itself(verb: str) -> None:
    result = CliRunner().invoke(main_group, [verb, "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.output


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_example_can_be_planned(path: Path) -> None:
    spec = load_spec(path)
    assert make_plan(spec, make_runner(spec).refusal).visits
