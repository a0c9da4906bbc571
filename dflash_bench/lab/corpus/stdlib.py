"""Real Python: the documented functions of the running interpreter's standard library (PSF licence).

The prompt is the signature with its docstring, the answer the whole function, as in HumanEval, whose own rows
are never trained on. The rows depend on the interpreter's version, which the model card therefore names.
"""

from __future__ import annotations

import ast
import sysconfig
import textwrap
from collections.abc import Iterator
from pathlib import Path

from dflash_bench.lab.corpus.row import Row, is_held_out

FAMILY = "stdlib"
PROMPT = "Complete this Python function. Reply with the whole function in a code block.\n```python\n{head}\n```"
ANSWER = "```python\n{code}\n```"
MAX_CHARS = 900  # about 300 tokens
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__", "lib2to3"}


def source_files(root: Path) -> list[Path]:
    """Return the library's own Python files in a fixed order, tests and installed packages left out."""
    return sorted(p for p in root.rglob("*.py") if not SKIPPED & set(p.relative_to(root).parts))


def functions(source: str) -> Iterator[tuple[str, str]]:
    """Yield (signature with docstring, whole function) for each documented function that has a body."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef) or ast.get_docstring(node) is None:
            continue
        docstring_end = node.body[0].end_lineno
        if len(node.body) < 2 or docstring_end is None:
            continue
        code = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
        head = "\n".join(code.splitlines()[: docstring_end - node.lineno + 1])
        yield head, code


def load(root: Path | None = None, *, held_out: bool) -> list[Row]:
    """Return the short functions under `root` (the interpreter's library) on one side of the split, each once."""
    rows: dict[str, Row] = {}
    for path in source_files(root or Path(sysconfig.get_paths()["stdlib"])):
        try:
            found = list(functions(path.read_text(encoding="utf-8")))
        except (SyntaxError, UnicodeDecodeError):
            continue  # a few files of the library are deliberately not parsable (templates, encodings)
        for head, code in found:
            prompt = PROMPT.format(head=head)
            if len(code) <= MAX_CHARS and code.isascii() and is_held_out(prompt) == held_out:
                rows.setdefault(prompt, Row(FAMILY, prompt, ANSWER.format(code=code)))
    return list(rows.values())
