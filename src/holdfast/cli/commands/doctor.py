"""`holdfast doctor`: checks configuration, store, workers and runs.

Each check gives findings: ok, a warning, or a problem, which makes the exit code 1. A check that is impossible (no
store, no app) does not stop the others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import click
import msgspec

from holdfast.app import App, schema_of
from holdfast.cli.options import store_options
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import app_to_serve, refuse_missing, refuse_private, store_app
from holdfast.client.inspect.finding import Finding
from holdfast.client.inspect.findings import store_findings
from holdfast.config import Loaded, load
from holdfast.errors import HoldfastError
from holdfast.stores import lease_service_findings

_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


@click.command("doctor", cls=HoldfastCommand)
@store_options()
def command(target: str | None, url: str | None, is_json: bool) -> int:
    """Check for problems: configuration, app, store, schema, clocks, workers, leases, runs that no worker serves,
    paused runs.

    Exit code 1 if there is a problem; warnings do not count. It changes and migrates nothing.
    """
    return run_async(_examine(target, url, Output(is_json=is_json)))


async def _examine(target: str | None, url: str | None, out: Output) -> int:
    findings = [finding async for finding in examine(target, url)]
    problems = sum(finding.state == "problem" for finding in findings)
    if out.is_json:
        out.record({"ok": not problems, "findings": msgspec.to_builtins(findings)})
    else:
        widest = max(len(finding.check) for finding in findings)
        for finding in findings:
            out.entry(f"{finding.check:{widest}}  ", (f"{finding.state:7}", _STYLES[finding.state]), finding.text)
    return 1 if problems else 0


async def examine(target: str | None, url: str | None) -> AsyncIterator[Finding]:
    """All findings, the cheap ones first."""
    try:
        loaded = load()
    except HoldfastError as error:
        yield Finding("config", "problem", str(error))
        return
    yield Finding("config", "ok", str(loaded.file) if loaded.file else "no file; defaults and environment")
    if target or loaded.settings.app or loaded.settings.discover:
        yield _app(target, loaded)
    try:
        app, is_default = store_app(target, url)
        refuse_private(app.url)
        await refuse_missing(app.url, is_default=is_default)
        schema = await _schema(app)
        yield schema
        if schema.state == "problem":  # to open it would be to migrate it
            return
        async with app:
            client = await app.client()
            async for finding in store_findings(client):
                yield finding
            for finding in await lease_service_findings(app.config.leases, client):
                yield finding
    except (HoldfastError, click.ClickException) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        yield Finding("store", "problem", text)


def _app(target: str | None, loaded: Loaded) -> Finding:
    try:
        app = app_to_serve(target, loaded)
    except (HoldfastError, click.ClickException) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        return Finding("app", "problem", text)
    served = ", ".join(sorted(spec.label for spec in app.registry))
    return Finding("app", "ok", f"serves {served}") if served else Finding("app", "warning", "serves no workflow")


async def _schema(app: App) -> Finding:
    schema = await schema_of(app.url)
    if schema is None:
        return Finding("schema", "ok", "none needed")
    if schema.pending:
        text = f"version {schema.version}, and {schema.latest} is needed. Run: holdfast migrate"
        return Finding("schema", "problem", text)
    return Finding("schema", "ok", f"version {schema.version}, up to date")
