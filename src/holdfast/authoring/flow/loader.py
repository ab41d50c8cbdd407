"""`load_flow`: a flow from a file, checked completely before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path as FilePath
from typing import Final, Literal, TypeAlias

from holdfast.authoring.flow.definition_checks import Catalog, Place, check
from holdfast.authoring.flow.definition_reader import Reader
from holdfast.authoring.flow.flow_definition import Definition
from holdfast.authoring.flow.json_text import read_json
from holdfast.authoring.flow.located import MAX_SIZE, Mark, Node, Unreadable, find, refused
from holdfast.authoring.flow.yaml_text import read_yaml
from holdfast.errors import Problem

__all__ = ["Checked", "Syntax", "check_file", "check_text", "read_definition"]

Syntax: TypeAlias = Literal["json", "yaml"]

NOTED: Final = 100
"""Maximum number of anchors, duplicate keys and similar problems that are reported."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of reading a file. `definition` is set if nothing is wrong; `problems` includes warnings."""

    where: str
    problems: tuple[Problem, ...]
    definition: Definition | None

    def required(self) -> Definition:
        """The definition. Raises `InvalidFlow` with everything that is wrong."""
        if self.definition is None:
            raise refused(self.where, self.problems)
        return self.definition


def read_definition(path: str | PathLike[str]) -> Definition:
    """The flow of a file. Raises `InvalidFlow` with everything that is wrong, each with line and column."""
    return check_file(path).required()


def check_file(path: str | PathLike[str], catalog: Catalog | None = None) -> Checked:
    """Reads and checks a file: JSON if its name says so, else YAML. With a catalog, checks what it calls too."""
    file, where = FilePath(path), str(path)
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_SIZE + 1)
    except OSError as error:
        return _unreadable(where, f"the file cannot be read: {error.strerror or error}", Mark())
    if len(data) > MAX_SIZE:
        return _unreadable(where, f"the file is larger than {MAX_SIZE // 2**20} MiB", Mark(1, 1))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        mark = Mark(before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
        return _unreadable(where, "the file is not UTF-8 text", mark)
    return check_text(text, where, "json" if file.suffix.lower() == ".json" else "yaml", catalog)


def check_text(text: str, where: str, syntax: Syntax = "yaml", catalog: Catalog | None = None) -> Checked:
    """Like `check_file`, for text; `where` is its name in messages."""
    reader = Reader(where)

    def note(mark: Mark, message: str) -> None:
        reader.say(mark, message)
        if len(reader.problems) == NOTED:
            raise Unreadable("and perhaps more: fix these first", mark)

    try:
        root = read_json(text, note) if syntax == "json" else read_yaml(text, note)
    except Unreadable as error:
        reader.say(error.mark, str(error))
        return Checked(where, _in_order(reader.problems), None)
    definition = reader.definition(root)
    if definition is not None:

        def say(place: Place, message: str, *, words: str = "", is_warning: bool = False) -> None:
            reader.say(_mark(root, place, words), message, is_warning=is_warning)

        check(definition, say, catalog)
    problems = _in_order(reader.problems)
    is_wrong = any(not problem.is_warning for problem in problems)
    return Checked(where, problems, None if is_wrong else definition)


def _mark(root: Node, place: Place, words: str) -> Mark:
    node = find(root, place)
    if words and isinstance(node.value, str) and words in node.value:
        return node.at(node.value.index(words))
    return node.key if node.key.line and not isinstance(node.value, str) else node.mark


def _unreadable(where: str, message: str, mark: Mark) -> Checked:
    return Checked(where, (Problem(message, where, mark.line, mark.column),), None)


def _in_order(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """The problems in the order of the file, each once."""
    return tuple(sorted(dict.fromkeys(problems), key=lambda each: (each.line, each.column)))
