"""The page for those who write a store names everything that a store is held to."""

from __future__ import annotations

from pathlib import Path

from holdfast.ports.store import Store
from holdfast.testing.conformance import StoreSuite, TransactionsSuite

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "writing-a-store.md").read_text(encoding="utf-8")


def test_every_suite_is_named() -> None:
    """Contract: a store that binds them one by one binds them all."""
    suites = [suite.__name__ for suite in (*StoreSuite.__bases__, TransactionsSuite)]
    assert [name for name in suites if f"`{name}`" not in PAGE] == []


def test_every_port_has_its_row() -> None:
    """Contract: the table says the gist of each."""
    ports = [port.__name__ for port in (*Store.__bases__, Store) if port.__module__.startswith("holdfast.")]
    assert len(ports) == 14
    assert [name for name in ports if f"| `{name}` |" not in PAGE] == []
