"""`holdfast migrate`: migrates or checks the schema of a store."""

from __future__ import annotations

import click

from holdfast.app import open_store, schema_of
from holdfast.cli.options import actor_option, store_options
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import refuse_private, store_app
from holdfast.client.audit import audited, this_user
from holdfast.config import StoreSettings
from holdfast.config.addresses import without_secrets


@click.command("migrate", cls=HoldfastCommand)
@store_options()
@click.option("--check", "is_check", is_flag=True, help="Only check; exit code 1 if a migration is missing.")
@actor_option
def command(target: str | None, url: str | None, is_json: bool, is_check: bool, actor: str | None) -> int:
    """Migrate the store's schema, whatever `auto_migrate` says. A missing store is created.

    Each migration is one transaction; concurrent migrations wait for each other.
    """
    app, _ = store_app(target, url)
    refuse_private(app.url)
    if not is_check:
        audited(actor or this_user(), "migrate", detail=without_secrets(app.url))
    return run_async(_migrate(app.url, Output(is_json=is_json), is_check=is_check))


async def _migrate(url: str, out: Output, *, is_check: bool) -> int:
    before = await schema_of(url)
    if not is_check:
        await (await open_store(url, StoreSettings(auto_migrate=True))).close()
    after = await schema_of(url)
    address = without_secrets(url)
    if before is None or after is None:
        out.record({"url": address, "schema": None}) if out.is_json else out.line(f"{address} has no schema")
        return 0
    if out.is_json:
        record = {"url": address, "before": before.version, "after": after.version, "latest": after.latest}
        out.record({**record, "pending": after.pending})
    elif after.pending:
        out.line(f"{address}: schema version {after.version}, {after.latest} is needed. Run: holdfast migrate")
    elif before.pending:
        out.line(f"{address}: schema migrated from version {before.version} to {after.version}")
    else:
        out.line(f"{address}: schema version {after.version}, up to date")
    return 1 if after.pending else 0
