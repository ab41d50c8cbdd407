"""The reference is what the code says."""

from __future__ import annotations

import importlib

import pytest

from tests.docs.reference import FOLDER, PAGES, Page, find, forms, members, pages, prose, public_names

BY_MODULE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.module)


def test_the_committed_pages_are_what_the_generator_makes() -> None:
    """Contract: a changed docstring or signature changes the reference with it."""
    made = pages()
    stale = [path.name for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    assert not stale, f"run `python3 dev.py docs`: {stale}"
    assert {path.name for path in FOLDER.glob("*")} == {path.name for path in made}


@BY_MODULE
def test_every_public_name_is_there_and_says_what_it_is(page: Page) -> None:
    """Contract: the reference names everything `__all__` does, and nothing else; each has a docstring."""
    names = public_names(page.module)
    assert names == importlib.import_module(page.module).__all__
    assert {name for section in page.sections for name in section.names} <= set(names)
    text = pages()[page.path]
    assert [name for name in names if f"`{name}`" not in text] == []
    assert [name for name in names if not find(name, page.module).doc] == []


def test_checkers_and_readers_see_the_same() -> None:
    """Contract: the typed form of a verb, each overload, inherited verbs, and the docstring of the implementation."""
    assert "async def sleep(" in forms(find("sleep", "holdfast"), "sleep")
    wait = members(find("Signal", "holdfast"))["wait"]
    assert forms(wait, "wait", is_method=True).count("async def wait(*, timeout") == 2
    assert wait.doc.startswith("Waits for the next one.")
    assert forms(find("step", "holdfast"), "step").startswith("```python\n@step\n@step(")


def test_pictures_in_docstrings_become_blocks() -> None:
    assert prose("First.\n\n::\n\n    a ──▶ b\n\nLast ``word``.") == "First.\n\n```text\na ──▶ b\n```\n\nLast `word`.\n"
