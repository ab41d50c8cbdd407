"""Links of the documentation lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")


def pages() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(text: str) -> set[str]:
    """As GitHub makes them from headings."""
    titles = re.findall(r"^#+ +(.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken(page: Path) -> Iterator[str]:
    for link in LINK.finditer(CODE.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))):
        target, _, anchor = link["target"].partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        path = (page.parent / target).resolve() if target else page
        is_there = path.exists() and (not anchor or anchor in anchors(path.read_text(encoding="utf-8")))
        if not is_there:
            yield link["target"]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Contract: a link to a file of the repository, or to a heading in one, is right."""
    assert list(broken(page)) == []


def test_every_guide_is_in_the_index() -> None:
    """Contract: a reader finds every guide from docs/README.md."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    linked = {link["target"].partition("#")[0] for link in LINK.finditer(index)}
    found = (ROOT / "docs/guides").glob("*.md")
    missing = [path.name for path in found if path.relative_to(ROOT / "docs").as_posix() not in linked]
    assert not missing, f"name them in docs/README.md: {sorted(missing)}"


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title, of it\n[a](gone.md) [b](#a-title-of-it) [c](#other)\n```\n[d](gone)\n```\n`x[T](gone)`")
    assert list(broken(page)) == ["gone.md", "#other"]
