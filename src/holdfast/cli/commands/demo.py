"""`holdfast demo`: a worker is killed in the middle of an order, another finishes it, and the books are compared."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.invocation import program
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async

if TYPE_CHECKING:
    from holdfast.cli.demo.demo_stage import Stage
    from holdfast.cli.demo.demo_story import Plan, Shown
    from holdfast.cli.demo.screen import Screen
    from holdfast.cli.demo.verdict import Recorded

ENDING = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


@click.command("demo", cls=HoldfastCommand)
@click.option("--seed", type=click.IntRange(0, 2**32), metavar="N", help="Decides where the worker gets killed.")
@click.option("--fast", "is_fast", is_flag=True, help="Finish in a few seconds.")
@click.option("--page", "has_page", is_flag=True, help="Show it on the page; the order starts when you open the link.")
@click.option("--open", "is_opening", is_flag=True, help="With --page: open the link in a browser.")
@click.option("--json", "is_json", is_flag=True, help="Print one object at the end.")
def command(seed: int | None, is_fast: bool, has_page: bool, is_opening: bool, is_json: bool) -> int:
    """Watch a worker get killed in the middle of its work, and another one finish its run.

    An order (a charge that is retried, parallel notifications, a durable sleep, a signal, a child run) runs in a real
    worker process, which is killed with SIGKILL. At the end the journal is compared with a ledger of what the steps
    really did. Exit code 0: the result is right, and no step recorded as completed ran again.
    """
    from holdfast.cli.demo.demo_story import new_seed, plan_for

    if not hasattr(signal, "SIGKILL"):
        raise click.UsageError("the demo kills a process with SIGKILL, which this system does not have")
    if has_page and is_json:
        raise click.UsageError("--page waits for a person and --json is for programs: use one of them")
    if is_opening and not has_page:
        raise click.UsageError("--open opens the page: add --page")
    chosen = new_seed(is_in_order=has_page) if seed is None else seed
    try:
        plan = plan_for(chosen, is_fast=is_fast)
        return run_async(_demo(plan, Output(is_json=is_json), has_page=has_page, is_opening=is_opening))
    except asyncio.CancelledError:
        raise click.exceptions.Exit(128 + signal.SIGTERM) from None
    except BrokenPipeError:
        raise click.exceptions.Exit(1) from None  # its end is unknown


async def _demo(plan: Plan, out: Output, *, has_page: bool, is_opening: bool) -> int:
    from holdfast.cli.demo.demo_stage import Stage
    from holdfast.cli.demo.screen import SilentScreen, screen_for

    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    for number in ENDING:
        loop.add_signal_handler(number, task.cancel)
    screen = SilentScreen() if out.is_json else screen_for(sys.stdout)
    with Stage(pace=plan.pace, lease=plan.lease) as stage:
        _introduce(plan, screen)
        if has_page:
            shown = await _show_on_page(plan, stage, screen, is_opening=is_opening)
        else:
            shown = await _show(plan, stage, screen)
    if out.is_json:
        out.record(_object(plan, shown))
    elif not has_page:
        _conclude(plan, shown, screen)
    return 1 if shown.verdict.problems else 0


async def _show(plan: Plan, stage: Stage, screen: Screen) -> Shown:
    from holdfast.cli.demo.demo_story import Story

    with screen:
        return await Story(plan, stage, screen).tell()


async def _show_on_page(plan: Plan, stage: Stage, screen: Screen, *, is_opening: bool) -> Shown:
    """Runs the demo beside the page, which stays until Ctrl-C."""
    from holdfast.cli.demo.page import demo_page, until_interrupted

    async with demo_page(stage, plan.run) as page:
        click.echo(f"page: {page.link}")  # as it is, however narrow the terminal: it is to be clicked
        screen.write("The order starts when you open it.")
        if not await page.opened(is_opening=is_opening):
            screen.write("The link expired; the order starts without the page.", style="yellow")
        screen.write()
        shown = await _show(plan, stage, screen)
        _conclude(plan, shown, screen)
        await until_interrupted(screen.write)
    return shown


# -- for people --------------------------------------------------------------------------------------------------------


def _introduce(plan: Plan, screen: Screen) -> None:
    screen.write("A worker fulfils an order. It is killed in the middle; another one finishes it.")
    screen.write(f"Seed {plan.seed}; with --seed {plan.seed} it is killed at the same point again.", style="dim")
    screen.write()


def _conclude(plan: Plan, shown: Shown, screen: Screen) -> None:
    verdict = shown.verdict
    screen.write()
    screen.write(f"result    {verdict.result}", hang=10, style="bold")
    screen.write()
    widest = max(len(name) for name in shown.names.values())
    screen.write(f"{'step':{widest}}  side effect  recorded in the journal", hang=widest + 15, style="bold")
    for step, recorded in verdict.end.steps.items():
        count = verdict.end.count("effect", step)
        text = f"{shown.names[step]:{widest}}  {_times(count):11}  {_recorded(recorded)}"
        screen.write(text, hang=widest + 15, style="yellow" if count != 1 else "")
    screen.write()
    if verdict.problems:
        for problem in verdict.problems:
            screen.write(f"WRONG     {problem}", hang=10, style="bold red")
        return
    screen.write(_sentence(shown), style="bold green")
    screen.write(
        "The second worker is not the first one restarted: it waited for the first one's lease to run out, "
        f"{plan.lease:g} s here, 15 s by default. A worker restarted under its own --id resumes at once.",
        style="dim",
    )
    screen.write()
    screen.write(f"Next: {program()} init shop creates a small project and says what to do next.")


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _recorded(recorded: Recorded) -> str:
    reasons = [
        *([f"{recorded.failed} failed"] if recorded.failed else []),
        *([f"{recorded.cut_off} cut off"] if recorded.cut_off else []),
    ]
    if not recorded.completed:
        return "not completed"
    return f"completed by attempt {recorded.attempts}" + (f" ({', '.join(reasons)})" if reasons else "")


def _sentence(shown: Shown) -> str:
    from holdfast.cli.demo.verdict import listed

    kill = shown.verdict.kill.picture
    names = listed(shown.names[step] for step in kill.in_flight)
    count = len(kill.completed)
    completed = f"The {count} steps" if count > 1 else "The step"
    return (
        f"{completed} recorded as completed before the kill never ran again; {names}, cut off in flight, ran again "
        "with the same idempotency key, by which a receiver can tell a repeat."
    )


# -- for programs ------------------------------------------------------------------------------------------------------


def _object(plan: Plan, shown: Shown) -> dict[str, Any]:
    verdict = shown.verdict
    return {
        "seed": plan.seed,
        "ok": not verdict.problems,
        "problems": list(verdict.problems),
        "result": verdict.result,
        "completed_at_kill": [shown.names[step] for step in verdict.kill.picture.completed],
        "in_flight_at_kill": [shown.names[step] for step in verdict.kill.picture.in_flight],
        "steps": [
            {
                "step": shown.names[step],
                "happened": verdict.end.count("effect", step),
                "attempts": recorded.attempts,
                "failed": recorded.failed,
                "cut_off": recorded.cut_off,
                "completed": recorded.completed,
            }
            for step, recorded in verdict.end.steps.items()
        ],
    }
