"""The format of flow files as a table: which keys there are, what each holds, and what it means.

The reader uses this table; the JSON Schema for editors and the reference are generated from it. A key that is not here
does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

__all__ = ["ACTIONS", "FLOW", "FORMAT", "TABLES", "Choice", "Key", "Kind", "Named", "Nested", "Plain", "Table"]

FORMAT: Final = 1

Plain: TypeAlias = Literal[
    "format",  # the number of the format
    "text",
    "name",
    "names",  # a list of names
    "flag",  # true or false
    "count",  # a whole number from 1
    "number",
    "duration",  # "1h30m", or a number of seconds
    "value",  # any JSON, with ${…} in its texts
    "condition",  # ${…}, or true or false
    "json",  # any JSON, taken as it is
    "schema",  # a JSON Schema
]


@dataclass(frozen=True, slots=True)
class Nested:
    """A mapping with the keys of a table."""

    table: str


@dataclass(frozen=True, slots=True)
class Named:
    """A mapping from names to mappings with the keys of a table."""

    table: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One of these words, a count if `counts`, or a mapping with the keys of a table."""

    words: tuple[str, ...]
    table: str
    counts: bool = False


Kind: TypeAlias = Plain | Nested | Named | Choice


@dataclass(frozen=True, slots=True)
class Key:
    """One key."""

    name: str
    kind: Kind
    about: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """The keys of one kind of mapping. `name` is its name in messages; `needs` lists keys that require another key."""

    name: str
    about: str
    keys: tuple[Key, ...]
    needs: tuple[tuple[str, str], ...] = ()


FLOW: Final = Table(
    "a flow",
    "A Holdfast flow: a workflow written as data.",
    (
        Key("holdfast", "format", "The version of this format: 1.", required=True),
        Key("name", "name", "The workflow's name, in the app and in the journal.", required=True),
        Key("version", "text", "Runs are pinned to the version they began with."),
        Key("description", "text", "For people."),
        Key(
            "saga",
            "flag",
            "On failure or cancellation, undo completed steps in reverse, as their Python steps define it.",
        ),
        Key("input", "schema", "JSON Schema of the input: checked before a run is started."),
        Key("output_schema", "schema", "JSON Schema of the output: checked when the run ends."),
        Key("vars", Named("variable"), "Values given at the start besides the input, by name: ${vars.region}."),
        Key("steps", Named("step"), "The steps by name. Those that do not refer to each other run together."),
        Key("output", "value", "The result of the run. Only steps that it needs, and those with `always`, are run."),
        Key("metadata", "json", "Anything, for tools of your own."),
    ),
)

STEP: Final = Table(
    "a step",
    "One step: it does one of call, wait, sleep or approve.",
    (
        Key("call", "name", "The step, workflow or flow of the app to call: module.function, or its name=."),
        Key("with", "value", "The arguments by name. A whole ${…} keeps its type, inside text it is text."),
        Key("vars", "value", "Values for the variables of the flow that is called, by name."),
        Key("wait", Nested("wait"), "Wait for a signal. Its value is the result."),
        Key("sleep", "value", "Wait this long: a duration such as 1h, or ${…} that gives one."),
        Key("approve", Nested("approve"), "Ask for approval. The result has approved (true or false), by, at and why."),
        Key("needs", "names", "Steps to come after, besides those it refers to."),
        Key("if", "condition", "Only if this holds. Otherwise the step is skipped, and steps that need it are too."),
        Key("else", "value", "The value when skipped: steps that need this one use it."),
        Key("each", Nested("each"), "Call once for each item of a list, as ${item}. The result is a list."),
        Key("retry", Choice((), "retry", counts=True), "How often to try, and how long to wait in between."),
        Key("timeout", "duration", "The longest that one attempt may take."),
        Key("on_error", Choice(("fail",), "on_error"), "What happens when retries are spent: fail, or continue."),
        Key("always", "flag", "Run it even if no output needs it."),
        Key("description", "text", "For people."),
        Key("metadata", "json", "Anything, for tools of your own."),
    ),
    (("else", "if"), ("with", "call"), ("vars", "call"), ("each", "call"), ("retry", "call"), ("timeout", "call")),
)

ACTIONS: Final = ("call", "wait", "sleep", "approve")
"""A step has exactly one of these keys."""

TABLES: Final[Mapping[str, Table]] = {
    "step": STEP,
    "variable": Table(
        "a variable",
        "A value given at the start, besides the input.",
        (
            Key("default", "json", "The default value. Without it, every start must give one."),
            Key("secret", "flag", "Never shown: the command line, logs and pictures have *** instead."),
            Key("description", "text", "For people."),
        ),
    ),
    "wait": Table(
        "a wait",
        "Waiting for a signal.",
        (
            Key("signal", "name", "The name of the signal.", required=True),
            Key("timeout", "duration", "The longest to wait."),
            Key("default", "value", "The result if the time runs out. Without it, the step fails then."),
        ),
        (("default", "timeout"),),
    ),
    "approve": Table(
        "an approval",
        "A person decides; who, when and why is recorded.",
        (
            Key("by", "value", "Who is asked: a name, a list of names, or ${…}.", required=True),
            Key("when", "condition", "Whether to ask at all. If it does not hold, it is approved."),
            Key("why", "value", "What the person who decides is told."),
            Key("timeout", "duration", "The longest to wait for an answer."),
            Key("then", Choice(("approve", "deny"), "then"), "What happens at the timeout. Default: deny."),
        ),
        (("then", "timeout"),),
    ),
    "then": Table(
        "an escalation",
        "Asks another person.",
        (Key("escalate", Nested("approve"), "Whom to ask next.", required=True),),
    ),
    "each": Table(
        "an each",
        "One call for each item.",
        (
            Key("in", "value", "The list: usually ${…}.", required=True),
            Key("limit", "count", "How many at a time. Default: 50."),
        ),
    ),
    "retry": Table(
        "a retry",
        "How often to try, and how long to wait in between.",
        (
            Key("attempts", "count", "Tries, the first included."),
            Key("unlimited", "flag", "Try until it works."),
            Key("first", "duration", "The wait after the first failure. Default: 1s."),
            Key("factor", "number", "By how much each wait is longer than the last. Default: 2."),
            Key("ceiling", "duration", "The longest wait. Default: 100s."),
        ),
    ),
    "on_error": Table(
        "an on_error",
        "What to continue with when retries are spent.",
        (Key("value", "value", "The result of the step then.", required=True),),
    ),
}
