"""The command itself: which commands there are, and how every one of them ends.

Exit codes: 0 done, 1 an error (one sentence on standard error), 2 wrong usage, 130 interrupted. A reader that is gone
(`holdfast runs | head -1`) is not an error. `--debug`, before or after the command's name, shows tracebacks.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from keyword import iskeyword
from typing import Any, NoReturn, TypeVar

import click

from holdfast.cli import INTERRUPTED
from holdfast.cli.escapes import one_line
from holdfast.cli.output import Output, open_missing_streams, prepare

T = TypeVar("T")

COMPLETION_VARIABLE = "_HOLDFAST_COMPLETE"
"""The variable through which the script of `holdfast completion` asks for words."""

GROUPS: dict[str, dict[str, str]] = {
    "First steps": {
        "demo": "Watch a worker get killed and another finish its run.",
        "init": "Create a small working project.",
        "dev": "Run a worker and the page; both restart when the code changes.",
    },
    "Run workflows": {
        "worker": "Run a worker until it is stopped.",
        "start": "Start a run.",
        "batch": "Run a workflow once for each line of a file.",
        "flow": "Check, draw and run flow files.",
    },
    "See what runs do": {
        "runs": "List runs, newest first.",
        "show": "Show one run: what it is doing and what it did.",
        "follow": "Follow a run as it happens.",
        "read": "Read what a run sends to a stream.",
        "workers": "List workers and what they serve.",
        "queues": "List queues; pause and resume them, change their rules.",
        "schedules": "List schedules; pause, resume, trigger, backfill and remove them.",
        "limits": "List limits on steps; set, reset, pause and resume them.",
        "manifest": "Show what an app can run.",
        "dashboard": "Serve the page and the HTTP API.",
    },
    "Act on runs": {
        "signal": "Send a signal to a run.",
        "update": "Ask a run, and print its answer.",
        "publish": "Publish to every run waiting on a topic.",
        "cancel": "Cancel a run; its clean-up code runs.",
        "kill": "End a run at once, without clean-up.",
        "delete": "Delete ended runs with their trees.",
        "pause": "Pause a run.",
        "resume": "Resume a paused run, also a quarantined or diverged one.",
        "retry": "Retry an ended run, keeping its completed steps.",
        "messages": "List what a run has not taken; drop or replace a message.",
        "compensate": "Finish the rollback of a machine's run.",
    },
    "Look after a store": {
        "doctor": "Check store, workers and runs for problems.",
        "verify": "Check stored runs for damage.",
        "gc": "Remove runs that ended long ago, and unused blobs.",
        "compact": "Compact long journals.",
        "space": "Show what uses the store's space.",
        "migrate": "Migrate the store's schema.",
        "export": "Write the journal of a run to a file.",
        "import": "Import an exported journal.",
    },
    "Set up": {
        "config": "Show every setting and where it came from.",
        "tokens": "Make, list and revoke tokens of the HTTP API.",
        "lint": "Find code in workflow bodies that would not replay.",
        "completion": "Print the shell completion script.",
        "version": "Show the version.",
    },
}
"""Every command and its line in the list of commands, in the order a newcomer needs them. Each has a module of its name
in `commands`, imported when it is needed, with a function `command`."""

SUGGESTIONS = {
    "list": " `holdfast runs` lists runs, `holdfast workers` workers.",
    "ls": " `holdfast runs` lists runs.",
    "ps": " `holdfast runs --status running` lists what runs now, `holdfast workers` the workers.",
    "status": " `holdfast show RUN` shows the status of a run, `holdfast doctor` checks for problems.",
    "logs": " `holdfast follow RUN` shows what a run does; workers log to standard error.",
    "run": " `holdfast start` starts a run, `holdfast worker` or `holdfast dev` runs what was started.",
    "stop": " `holdfast cancel RUN` ends a run, `holdfast pause RUN` stops it for a while.",
    "inspect": " `holdfast show RUN` shows a run.",
    "serve": " `holdfast worker` runs workflows, `holdfast dashboard` serves the page.",
    "send": " `holdfast signal RUN NAME JSON` sends to a run, `holdfast publish TOPIC JSON` to all that wait.",
}
"""Commands of other tools, and what to use here instead."""

COMMANDS: dict[str, str] = {name: summary for group in GROUPS.values() for name, summary in group.items()}


def _set_debug(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.find_root().meta["debug"] = True


def _set_config(context: click.Context, _: click.Parameter, value: str | None) -> None:
    """Sets the file in the environment, so that the app and the processes of its steps read the same one."""
    if value is not None:
        os.environ["HOLDFAST_CONFIG"] = value


def _common_options() -> list[click.Option]:
    return [
        click.Option(["--config"], metavar="FILE", expose_value=False, is_eager=True, callback=_set_config,
                     help="Configuration file. [nearest one, from here upwards]"),
        _debug_option(),
    ]  # fmt: skip


def _debug_option() -> click.Option:
    return click.Option(
        ["--debug"], is_flag=True, expose_value=False, callback=_set_debug, help="Show the traceback of an error."
    )


class HoldfastCommand(click.Command):
    """A command with the options that every one has."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params.extend(_common_options())
        if self.callback is not None and self.callback.__name__ == "command":  # not a part of a group
            self.short_help: str | None = COMMANDS.get(self.name or "", self.short_help)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's, with a hint if an app is given as an argument."""
        words = [word for word in args if ":" in word and not word.startswith("-")]
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            is_extra = "unexpected extra argument" in error.message
            if is_extra and words and any("--app" in one.opts for one in self.params):
                hint = f"{error.message}. An app is named with --app {words[-1]}"
                raise click.UsageError(hint, ctx) from error
            raise


class LazyGroup(click.Group):
    """Lists its commands by name and loads a command's module when it is used."""

    package: str = "holdfast.cli.commands"
    groups: Mapping[str, Mapping[str, str]] = GROUPS
    suggestions: Mapping[str, str] = SUGGESTIONS

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order a newcomer needs them."""
        return [name for group in self.groups.values() for name in group]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command: click.Command = importlib.import_module(f"{self.package}.{module}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click's, in groups, without loading the commands."""
        for title, group in self.groups.items():
            with formatter.section(title):
                formatter.write_dl(list(group.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's; without a command it shows the help."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, with a hint for an unknown command."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            from holdfast.core.hints import did_you_mean

            hint = self.suggestions.get(args[0]) or did_you_mean(args[0], known)
            raise click.UsageError(f"no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


def _print_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        import holdfast

        click.echo(f"holdfast {holdfast.__version__}")
        context.exit()


root: LazyGroup = LazyGroup(
    "holdfast",
    help="Durable workflows in ordinary Python: run workers, start runs, see what they do.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    params=[
        *_common_options(),
        click.Option(["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_print_version,
                     help="Show the version and exit."),
    ],
    epilog="MODULE:APP is where your App is: shop:app for `app = App(…)` in shop.py.",
)  # fmt: skip


def run_async(work: Coroutine[Any, Any, T]) -> T:
    import asyncio  # a third of what `--help` would cost

    return asyncio.run(work)


def run(arguments: Sequence[str] | None) -> NoReturn:
    """Runs the command line and ends the process."""
    open_missing_streams()
    prepare(sys.stdout, sys.stderr)
    words = list(sys.argv[1:] if arguments is None else arguments)
    context: list[click.Context] = []

    def work() -> int:
        if asked := os.environ.get(COMPLETION_VARIABLE):
            from click.shell_completion import shell_complete

            return shell_complete(root, {}, "holdfast", COMPLETION_VARIABLE, asked)
        with root.make_context("holdfast", words) as made:
            context.append(made)
            code = root.invoke(made)
        return code if isinstance(code, int) else 0

    code = _guarded(work, lambda: bool(context and context[0].meta.get("debug")) or "--debug" in words)
    _flush_and_exit(code)


def _guarded(work: Callable[[], int], is_debug: Callable[[], bool]) -> int:
    try:
        return work()
    except click.exceptions.Exit as end:
        return end.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return 0
    except click.ClickException as error:
        _complain(error, error.format_message(), is_debug=is_debug())
        return error.exit_code
    except OSError as error:
        _complain(
            error, f"{error.strerror or error}: {error.filename}" if error.filename else f"{error}", is_debug=is_debug()
        )
        return 1
    except Exception as error:  # noqa: BLE001 ours, or a bug: say so in a line, and how to see more
        from holdfast.errors import HoldfastError  # not for `--help`

        is_ours = isinstance(error, HoldfastError)
        unexpected = f"unexpected error: {type(error).__name__}: {error} (--debug shows where)"
        _complain(error, str(error) if is_ours else unexpected, is_debug=is_debug())
        return 1


def _complain(error: BaseException, sentence: str, *, is_debug: bool) -> None:
    lines: list[str] = []
    if is_debug:
        import traceback

        lines += "".join(traceback.format_exception(error)).rstrip().splitlines()
    if isinstance(error, click.UsageError) and error.ctx is not None:
        lines.append(error.ctx.get_usage())
    try:
        for line in lines:
            sys.stderr.write(f"{one_line(line)}\n")
        Output(stream=sys.stderr).hanging(("error: ", "bold red"), sentence)
        sys.stderr.flush()
    except OSError:  # no one reads
        return


def _flush_and_exit(code: int) -> NoReturn:
    """Exits quietly even if the reader of our output has gone."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
