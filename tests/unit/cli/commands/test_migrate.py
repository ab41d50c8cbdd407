"""`holdfast migrate`."""

from __future__ import annotations

from tests.unit.cli.conftest import Cli


def test_a_schema_is_checked_and_migrated(cli: Cli) -> None:
    """Contract: --check changes nothing and exits with 1 while something is missing; migrate makes it, once."""
    check = cli("migrate", "--check")
    assert check.code == 1
    assert "schema version 0" in check.out
    assert not (cli.folder / "store.db").exists()
    assert "migrated from version 0" in cli.ok("migrate")
    assert "up to date" in cli.ok("migrate")
    assert "up to date" in cli.ok("migrate", "--check")
    shown = cli("migrate", "--json").json
    assert (shown["pending"], shown["before"]) == (0, shown["latest"])


def test_migrate_does_not_need_auto_migrate(cli: Cli) -> None:
    (cli.folder / "holdfast.toml").write_text("[store]\nauto_migrate = false")
    assert "holdfast migrate" in cli("start", "shop:app", "hello", "name=x").error
    cli.ok("migrate")
    assert cli.start("hello", "name=x", "--id", "r") == "r"
