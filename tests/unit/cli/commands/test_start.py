"""`holdfast start`: which run it gives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast import App
from tests.unit.cli.conftest import Cli


def test_a_person_is_told_that_no_worker_serves_the_run(cli: Cli, on_a_terminal: Callable[[], None]) -> None:
    """Promise: on a terminal a start says how to start a worker, unless one is there; a script gets the id alone."""
    assert cli.start("hello", "name=x", "--id", "a") == "a"
    on_a_terminal()
    alone = cli("start", "shop:app", "hello", "name=x", "--id", "b")
    words = " ".join(alone.err.split())
    assert alone.out.strip() == "b"
    assert words == "run b: no worker serves it at the moment. Start one: holdfast worker shop:app"

    async def served(app: App) -> bool:
        return not (await asyncio.to_thread(cli, "start", "shop:app", "hello", "name=x", "--delay", "1h")).err

    cli.serve(served)


def test_other_input_names_the_option_of_the_command(cli: Cli) -> None:
    """Promise: the way out is written as it is typed here, not as in Python."""
    cli.start("hello", "name=x", "--id", "a")
    refused = cli("start", "shop:app", "hello", "name=y", "--id", "a")
    assert (refused.code, "or --if-exists return to get that run" in refused.error) == (1, True)


def test_a_run_is_replaced(cli: Cli) -> None:
    """Contract: --if-exists replace cancels the open run of the value; without --unique it is refused."""
    run = cli.start("hello", "name=x", "--unique", "x")
    new = cli("start", "shop:app", "hello", "name=x", "--unique", "x", "--if-exists", "replace", "--json")
    assert (new.json["run"] != run, new.json["outcome"]) == (True, "created")
    assert cli("show", run, "--json").json["status"] == "cancelled"
    refused = cli("start", "shop:app", "hello", "name=x", "--if-exists", "replace")
    assert (refused.code, "unique" in refused.error) == (1, True)


def test_a_burst_is_one_run(cli: Cli) -> None:
    """Contract: with --debounce every start of a burst returns the same run; without --unique it is refused."""
    options = ("--unique", "x", "--debounce", "1h", "--max-wait", "2h")
    run = cli.start("hello", "name=x", *options)
    again = cli("start", "shop:app", "hello", "name=y", *options, "--json")
    assert again.json == {"run": run, "outcome": "existing"}
    assert cli("start", "shop:app", "hello", "name=y", "--debounce", "1h").code == 1


def test_a_start_brings_its_signal(cli: Cli) -> None:
    """Contract: --signal puts it into the inbox, once for a --signal-id; a wrong value starts nothing."""
    options = ("name=x", "--id", "a", "--signal", "approved=true", "--signal-id", "m-1")
    run = cli.start("approval", *options)
    assert cli.start("approval", *options) == run
    messages = cli("messages", run, "--json")
    assert messages.out.count('"m-1"') == 1
    other = ("name=x", "--id", "a", "--signal", "approved=false", "--signal-id", "m-1")
    refused = cli("start", "shop:app", "approval", *other)
    assert (refused.code, "id 'm-1' was used for signal approved with another value" in refused.error) == (1, True)
    refused = cli("start", "shop:app", "approval", "name=x", "--id", "b", "--signal", 'approved="yes"')
    assert (refused.code, "Nothing was started" in refused.error) == (1, True)
    assert cli("start", "shop:app", "approval", "name=x", "--signal-id", "m").code == 2


def test_a_unique_value_gives_its_open_run(cli: Cli) -> None:
    """Contract: --unique gives the open run of that value; --if-exists reject names it; its end frees the value."""
    run = cli.start("hello", "name=x", "--unique", "x")
    again = cli("start", "shop:app", "hello", "name=x", "--unique", "x", "--json")
    assert again.json == {"run": run, "outcome": "existing"}
    refused = cli("start", "shop:app", "hello", "name=x", "--unique", "x", "--if-exists", "reject")
    assert (refused.code, run in refused.error) == (1, True)
    cli.finish(run)
    assert cli.start("hello", "name=x", "--unique", "x", "--if-exists", "reject") != run
