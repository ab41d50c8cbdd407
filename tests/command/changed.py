"""Which tests import what changed, directly or through other modules, read from the sources without running them.

A module named in a string (`"-m", "tests.chaos.jobs"`, a table of modules to load) counts as imported, and so does
every `conftest.py` above a test. A file that is not Python belongs to the Python files beside it and, if there are
none, to the folder above; documents belong to `tests/docs` and `tests/architecture`.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from tests.command.stages import ROOT
from tests.support.heap import without_collector

FACADE = "holdfast"
NAME = re.compile(r"[A-Za-z_][\w.]{0,100}")
DOCUMENTS = ("tests/docs/", "tests/architecture/")


def changed_files(revision: str) -> list[str]:
    """Files that differ from a revision, new ones too. Without one: what is not committed, else the last commit."""
    new = _git("ls-files", "--others", "--exclude-standard")
    if revision:
        return sorted({*_git("diff", "--name-only", revision), *new})
    return sorted({*_git("diff", "--name-only", "HEAD"), *new}) or _git("diff", "--name-only", "HEAD~1")


def _git(*arguments: str) -> list[str]:
    answer = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ValueError(f"git {' '.join(arguments)}: {answer.stderr.strip()}")
    return answer.stdout.split()


def sources(root: Path = ROOT) -> dict[str, str]:
    """The text of every Python file of the project, by its path from the root."""
    folders = [root / name for name in ("src", "tests", "benchmarks", "examples")]
    files = [path for folder in folders for path in sorted(folder.rglob("*.py"))] + [root / "dev.py"]
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in files if path.exists()}


def module_of(path: str) -> str:
    """The name under which a file is imported."""
    parts = PurePosixPath(path.removeprefix("src/")).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def needed_for(
    changed: Iterable[str], texts: Mapping[str, str], users: Mapping[str, set[str]] | None = None
) -> list[str]:
    """The test files to run for these changes, in order. `users`: what `users_of` says of the texts, if it is known."""
    touched = {module_of(path) for name in changed for path in _python_for(name, texts)}
    found = {name for name in changed if name in texts}
    users = users_of(texts) if users is None else users
    waiting = list(touched)
    while waiting:
        for user in users.get(waiting.pop(), ()):
            if user not in touched:
                touched.add(user)
                waiting.append(user)
    is_document = any(name.endswith(".md") or "/" not in name for name in changed)
    return sorted(
        path
        for path in {*texts, *found}
        if PurePosixPath(path).name.startswith("test_")
        and (module_of(path) in touched or (is_document and path.startswith(DOCUMENTS)))
    )


def _python_for(name: str, texts: Mapping[str, str]) -> Iterator[str]:
    """A Python file itself; for any other file the Python files beside it, or of the nearest folder that has some."""
    if name.endswith(".py"):
        yield name
        return
    for folder in PurePosixPath(name).parents:
        beside = [path for path in texts if PurePosixPath(path).parent == folder]
        if beside and folder != PurePosixPath():
            yield from beside
            return


def users_of(texts: Mapping[str, str], *, with_strings: bool = True) -> dict[str, set[str]]:
    """For every module, the modules that import it. `with_strings`: also those that name it in a string."""
    modules = {module_of(path): path for path in texts}
    facade = _names_of(texts.get("src/holdfast/__init__.py", ""))
    users: dict[str, set[str]] = {}
    for path, text in texts.items():
        module = module_of(path)
        for wanted in _imports(path, text, facade, with_strings=with_strings):
            for name in _prefixes(wanted):
                if name in modules and name != module:
                    users.setdefault(name, set()).add(module)
        for conftest in _conftests(path, texts):
            users.setdefault(module_of(conftest), set()).add(module)
    return users


def _imports(path: str, text: str, facade: Mapping[str, str], *, with_strings: bool) -> Iterator[str]:
    package = module_of(path) if path.endswith("/__init__.py") else module_of(path).rpartition(".")[0]
    with without_collector():
        tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if not with_strings or not NAME.fullmatch(node.value):
                continue
            yield from (node.value, f"{node.value}.__main__")  # most strings name no module, and are no key later
            if "import_module(" in text:
                yield f"{package}.{node.value}"
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            if path == "src/holdfast/__init__.py":
                continue  # its names are loaded when they are asked for: whoever asks imports them
            for alias in node.names:
                yield facade.get(alias.name, base) if base == FACADE else base
                yield f"{base}.{alias.name}"


def _names_of(text: str) -> dict[str, str]:
    """The names of the façade, with the modules they live in."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: node.module or "" for node in nodes for alias in node.names}


def _prefixes(name: str) -> Iterator[str]:
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count])


def _conftests(path: str, texts: Mapping[str, str]) -> Iterator[str]:
    for folder in PurePosixPath(path).parents:
        if (name := (folder / "conftest.py").as_posix()) in texts and name != path:
            yield name
