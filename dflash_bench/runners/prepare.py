"""Files that a backend wants in a form of its own (llama.cpp: GGUF), made once per model and kept.

Each lies in `HOME/cache/NAME/made/KEY`, and KEY is a hash of everything that it comes from: its command, the models and
scripts that the command names, what is installed. So a changed model or converter never meets an old file, and arms
share what is made of the same model. `{cache}` is a folder of links to the files of one pair of models. A file is there
whole or not at all.
"""

import hashlib
import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from dflash_bench.errors import InfrastructureError
from dflash_bench.records.machine import sha256_files
from dflash_bench.runners import environments
from dflash_bench.runners.launch import Value, Values, fill, fill_text, names, paths, variables
from dflash_bench.runners.recipe import Preparation, Recipe
from dflash_bench.runners.server.process import environment, log_tail


def cache_folder(recipe: Recipe, target: Path, draft: Path | None) -> Path:
    """Return the folder, `{cache}` in a recipe, of what is prepared from these models; it need not exist."""
    root = environments.home() / "cache" / recipe.name
    if recipe.start is None or not recipe.start.prepare:
        return root
    steps = [step.model_dump() for step in recipe.start.prepare]
    return root / _key(_hashes(target), draft and _hashes(draft), steps, _installed(recipe))


def prepare(recipe: Recipe, values: Values, log_path: Path) -> list[Path]:
    """Make what the recipe prepares and is not there yet; return all that this start has, in the recipe's order.

    `values` hold `cache`, `target` and `draft`. A step that names a value which this start has not ({draft} of plain
    decoding) is left out. Raises InfrastructureError, with the end of the log, where a command fails or does not
    write its `{output}`.
    """
    known = {**paths(recipe), **values}
    made = []
    for number, step in enumerate(recipe.start.prepare if recipe.start else ()):
        if any(known.get(name, "") is None for name in needs(step)):
            continue
        where = f"recipe {recipe.reference}: start.prepare.{number}"
        link = Path(fill_text(step.makes, known, f"{where}.makes"))
        kept = environments.home() / "cache" / recipe.name / "made"
        file = kept / _origin(recipe, step, known, where) / link.name
        if not file.exists():
            part = file.with_name(f"part-{os.getpid()}-{file.name}")
            argv = fill(step.command, {**known, "output": part}, f"{where}.command")
            env = variables(recipe, environments.variant_of(recipe), known)
            _make(argv, env, part, file, recipe, log_path)
        _link(link, file)
        made.append(link)
    return made


def _origin(recipe: Recipe, step: Preparation, known: dict[str, Value], where: str) -> str:
    """Return the key of what `step` makes: its command, with what stands behind each word that is a file or a model."""
    models: dict[str, Value] = {
        role: _key(_hashes(Path(str(known[role]))))
        for role in ("target", "draft")
        if role in needs(step)
    }
    argv = fill(step.command, {**known, **models, "output": "output"}, where)
    scripts = [_hash(Path(word)) for word in argv if Path(word).is_file()]
    return _key(argv, scripts, _installed(recipe))


def _make(
    argv: tuple[str, ...],
    env: dict[str, str],
    part: Path,
    wanted: Path,
    recipe: Recipe,
    log_path: Path,
) -> None:
    wanted.parent.mkdir(parents=True, exist_ok=True)
    log_path.parent.mkdir(parents=True, exist_ok=True)
    venv = environments.required(recipe).folder if recipe.environment else None
    program = str(venv / "bin" / "python") if venv and argv[0] == "python" else argv[0]
    try:
        code = _run([program, *argv[1:]], environment(env, venv), log_path)
        if code == 0 and part.exists():
            part.replace(wanted)
            return
    finally:
        part.unlink(missing_ok=True)
    said = "wrote no {output}" if code == 0 else f"ended with exit code {code}"
    raise InfrastructureError(
        f"the command that makes {wanted.name} {said}: {' '.join(argv)}\n{log_tail(log_path)}",
        remedy=f"The whole log is {log_path}; start.prepare of {recipe.reference} holds the command.",
    )


def _run(argv: list[str], env: dict[str, str], log_path: Path) -> int:
    with log_path.open("ab") as log:
        try:
            return subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, check=False
            ).returncode
        except OSError as error:
            raise InfrastructureError(
                f"{argv[0]} cannot be run: {error.strerror}.",
                remedy="Check that the environment is whole (`dflash-bench doctor`) and the recipe's start.prepare.",
            ) from error


def _link(link: Path, file: Path) -> None:
    """Let `link` lead to `file`, also where it led to what another converter had made."""
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists() or link.resolve() != file.resolve():
        part = link.with_name(f"link-{os.getpid()}-{link.name}")
        part.symlink_to(file)
        part.replace(link)


def needs(step: Preparation) -> set[str]:
    """Return the placeholders without which `step` is left out."""
    words = [step.makes]
    for word in step.command:
        words += [word] if isinstance(word, str) else []
    return {name for word in words for name in names(word)} - {"output"}


def _installed(recipe: Recipe) -> str | None:
    variant = environments.variant_of(recipe)
    return None if variant is None else recipe.install_digest(variant)


def _key(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _hashes(folder: Path) -> dict[str, str]:
    return {path.name: _hash(path) for path in sorted(folder.iterdir()) if path.is_file()}


def _hash(path: Path) -> str:
    facts = path.stat()
    return _sha256(path, facts.st_size, facts.st_mtime_ns)


@cache
def _sha256(path: Path, size: int, modified_ns: int) -> str:
    """Return the sha256 of a file, read again only if its size or date has changed."""
    return sha256_files([path])[path.name]
