"""Makes docs/reference/ from the source: signatures as they are written, and the docstrings.

It reads the code and does not run it, so that what type checkers see (overloads, typed forms of verbs) is what readers
see. `python3 dev.py docs` writes the pages; a test keeps them equal to the code.
"""

from __future__ import annotations

import ast
import functools
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
FOLDER = ROOT / "docs" / "reference"
WIDTH = 110

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Section:
    """Names of a page under one heading. `extra` adds what users meet without importing it: (name, module)."""

    title: str
    names: tuple[str, ...]
    text: str = ""
    extra: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Page:
    """One public module. Public names in no section come last, so that none is forgotten."""

    module: str
    title: str
    text: str
    sections: tuple[Section, ...] = ()
    rest: str = "More"

    @property
    def path(self) -> Path:
        """Where it is written."""
        return FOLDER / f"{self.module.removeprefix('holdfast.')}.md"


NOT_MADE = {"Run", "Batch", "ScheduleHandle", "Call", "SimRun", "Step", "SyncStep", "SyncWorkflow"}
"""Classes whose objects users get and do not make."""

HIDDEN = {
    "*": {"spec", "specs", "durable_call", "make_call", "undo_call", "shape", "encode", "run_here", "client", "config"},
    "Call": {"send", "throw", "close"},
    "Retry": {"next_at", "delay"},
    "Sim": {"call", "advice", "next_id", "pass_time"},
    "Fake": {"step_spec", "workflow_spec"},
}
"""Members that are for the parts of Holdfast, by class; `*` for all."""

STEPS, WORKFLOWS = "holdfast.authoring.script.steps", "holdfast.authoring.script.workflows"
MANIFEST, PARTS = "holdfast.core.manifest", ("ManifestPart", "Checkpoint", "RetryPolicy")
PAGES = (
    Page(
        "holdfast",
        "holdfast",
        "What an application imports. A duration is a `timedelta`, a number of seconds, or a text: `500ms`, `30s`, "
        "`1h30m`, `3d`, `2w`.",
        (
            Section("Defining", ("step", "workflow", "remote", "resource", "Retry")),
            Section(
                "What the decorators give",
                (),
                "A decorated function keeps its type. These are its further verbs.",
                (("Step", STEPS), ("SyncStep", STEPS), ("SyncWorkflow", WORKFLOWS)),
            ),
            Section(
                "In a workflow",
                ("sleep", "each", "start", "saga", "now", "rng", "uuid4", "patched", "continue_as"),
                "Plain asyncio is durable too: `sleep`, `timeout`, `gather`, `wait`, `TaskGroup`, `Queue`, `Event`.",
            ),
            Section("In a step", ("heartbeat", "put_blob", "get_blob", "BlobRef")),
            Section("In both", ("current", "Current", "log")),
            Section("Messages", ("Signal", "Topic", "RunVar")),
            Section("Applications", ("App", "Run", "Call", "Status", "RunView", "JournalEvent")),
            Section("Hooks", ("Hook", "Fact")),
            Section(
                "Schedules",
                ("Schedule", "ScheduleHandle", "ScheduleView"),
                "",
                (("Slot", "holdfast.client.schedules"),),
            ),
            Section("Batches", ("Batch", "Item", "Counts")),
            Section("What an app can run", ("Manifest", "ManifestEntry"), "", tuple((x, MANIFEST) for x in PARTS)),
            Section(
                "Machines",
                (
                    "Machine",
                    "More",
                    "Again",
                    "Window",
                    "Join",
                    "ItemOutcome",
                    "Breaker",
                    "Observer",
                    "LoggingObserver",
                    "LogRow",
                ),
            ),
        ),
        rest="Errors",
    ),
    Page(
        "holdfast.sync",
        "holdfast.sync",
        "The same names for plain `def` code. Steps, workflows, policies and errors are the same objects; a call as a "
        "value is made with `.call(…)`.",
        (
            Section("In a workflow", ("sleep", "gather", "each", "wait", "saga", "Signal", "Topic")),
            Section("In a step", ("put_blob", "get_blob")),
            Section("Applications", ("App", "Run", "Batch", "ScheduleHandle")),
        ),
        rest="The same as in holdfast",
    ),
    Page(
        "holdfast.testing",
        "holdfast.testing",
        "For tests of workflows. [The guide](../guides/testing.md) shows it in use.",
    ),
    Page(
        "holdfast.facts",
        "holdfast.facts",
        "What a hook hears of: frozen values. [The guide](../guides/observability.md) shows them in use.",
    ),
    Page("holdfast.errors", "holdfast.errors", "Every exception Holdfast raises, and the few that authors raise."),
)


# ------------------------------------------------------------------------------------------------- reading the source


@dataclass(frozen=True)
class Found:
    """A definition: all its forms (overloads first), and the module it is in."""

    module: str
    name: str
    nodes: tuple[ast.stmt, ...]
    doc: str


@functools.cache
def tree_of(module: str) -> ast.Module:
    path = SOURCE.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """As a type checker reads them: of `if TYPE_CHECKING` the first branch, of its negation nothing."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            if isinstance(node.test, ast.Name):
                yield from statements(node.body)
        else:
            yield node


def public_names(module: str) -> list[str]:
    for node in tree_of(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    raise LookupError(f"{module} has no __all__")


def find(name: str, module: str) -> Found:
    """The definition of a name, wherever the module has it from."""
    body = list(statements(tree_of(module).body))
    nodes: list[ast.stmt] = []
    doc = ""
    for place, node in enumerate(body):
        if isinstance(node, Function | ast.ClassDef) and node.name == name:
            nodes.append(node)
            doc = ast.get_docstring(node) or doc
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
            nodes.append(node)
            doc = _text_after(body, place)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("holdfast"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return find(alias.name, node.module)
    if not nodes:
        raise LookupError(f"{module} has no {name}")
    return Found(module, name, tuple(nodes), doc)


def _text_after(body: Sequence[ast.stmt], place: int) -> str:
    if place + 1 < len(body):
        node = body[place + 1]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return textwrap.dedent(node.value.value).strip()
    return ""


def members(found: Found) -> dict[str, Found]:
    """The members of a class, inherited ones of ours included, in the order of their definition."""
    known: dict[str, Found] = {}
    [node] = found.nodes
    assert isinstance(node, ast.ClassDef)
    body = list(statements(node.body))
    for place, one in enumerate(body):
        if isinstance(one, Function):
            before = known.get(one.name)
            nodes = (*before.nodes, one) if before is not None and is_overload(before.nodes[-1]) else (one,)
            known[one.name] = Found(
                found.module, one.name, nodes, ast.get_docstring(one) or (before.doc if before else "")
            )
        elif isinstance(one, ast.AnnAssign):
            name = ast.unparse(one.target)
            known[name] = Found(found.module, name, (one,), _text_after(body, place))
    for base in node.bases:
        name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        try:
            inherited = members(find(name, found.module))
        except (LookupError, FileNotFoundError):  # not ours
            continue
        for key, member in inherited.items():
            known.setdefault(key, member)
    return known


def is_of_errors(found: Found) -> bool:
    """Whether it is filed in the package of errors."""
    return found.module.startswith("holdfast.errors")


def is_overload(node: ast.stmt) -> bool:
    return isinstance(node, Function) and any(ast.unparse(x) == "overload" for x in node.decorator_list)


def is_property(node: ast.stmt) -> bool:
    return isinstance(node, Function) and any(ast.unparse(x) == "property" for x in node.decorator_list)


# -------------------------------------------------------------------------------------------------------- writing it


def signature(node: Function, name: str, *, is_method: bool = False) -> str:
    """The head of a function, on one line if it fits, else a line for each parameter."""
    arguments = ast.parse(ast.unparse(node)).body[0]
    assert isinstance(arguments, Function)
    args = arguments.args
    if is_method and not any(ast.unparse(x) == "staticmethod" for x in node.decorator_list):
        (args.posonlyargs or args.args).pop(0)
    if args.posonlyargs and not is_method:
        args.args = [*args.posonlyargs, *args.args]
        args.posonlyargs = []
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None and name != "__init__" else ""
    head = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    parts = [part.replace("'", '"') for part in _parameters(args)]
    line = f"{head} {name}({', '.join(parts)}){returns}: ..."
    if len(line) <= WIDTH:
        return line
    inner = "".join(f"    {part},\n" for part in parts)
    return f"{head} {name}(\n{inner}){returns}: ..."


def _parameters(args: ast.arguments) -> list[str]:
    """Each parameter by itself: taken apart by unparsing arguments that hold only that one."""
    parts: list[str] = []
    padding: list[ast.expr | None] = [None] * (len(args.args) - len(args.defaults))
    for arg, default in zip(args.args, [*padding, *args.defaults], strict=True):
        parts.append(_parameter(arg, default))
    if args.vararg is not None:
        parts.append(f"*{ast.unparse(args.vararg)}")
    elif args.kwonlyargs:
        parts.append("*")
    parts += [_parameter(arg, default) for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    if args.kwarg is not None:
        parts.append(f"**{ast.unparse(args.kwarg)}")
    return parts


def _parameter(arg: ast.arg, default: ast.expr | None) -> str:
    equals = " = " if arg.annotation is not None else "="
    return ast.unparse(arg) + (f"{equals}{ast.unparse(default)}" if default is not None else "")


def forms(found: Found, name: str, *, is_method: bool = False) -> str:
    """The code block with every form of a function; if there are overloads, the implementation is not one of them."""
    functions = [node for node in found.nodes if isinstance(node, Function)]
    shown = [node for node in functions if is_overload(node)] or functions
    with_options = [node for node in shown if node.args.kwonlyargs and not node.args.args and not node.args.posonlyargs]
    if not is_method and len(shown) > 1 and with_options:  # a decorator: bare, or with these
        text = signature(with_options[0], name).removeprefix("def ").partition(") -> ")[0]
        return f"```python\n@{name}\n@{text})\n```\n"
    text = "\n".join(dict.fromkeys(signature(node, name, is_method=is_method) for node in shown))
    return f"```python\n{text}\n```\n"


def prose(doc: str) -> str:
    """A docstring as Markdown: `::` blocks become fences."""
    lines: list[str] = []
    is_inside = False
    for line in doc.split("\n"):
        if line.strip() == "::":
            lines.append("```text")
            is_inside = True
        elif is_inside and line and not line.startswith(" "):
            while not lines[-1]:
                lines.pop()
            lines += ["```", "", line]
            is_inside = False
        elif is_inside and lines[-1] == "```text" and not line:
            continue
        else:
            lines.append(line.removeprefix("    ") if is_inside else line)
    if is_inside:
        while not lines[-1]:
            lines.pop()
        lines.append("```")
    return re.sub(r"(?<!`)``(?!`)", "`", "\n".join(lines)) + "\n"


def entry(name: str, found: Found) -> Iterator[str]:
    """One public name."""
    yield f"### `{name}`\n"
    node = found.nodes[-1]
    if isinstance(node, ast.ClassDef):
        yield from class_entry(name, found)
        return
    if isinstance(node, Function):
        yield forms(found, name)
    elif isinstance(node, ast.AnnAssign):
        yield f"```python\n{name}: {ast.unparse(node.annotation)}\n```\n"
    yield prose(found.doc)


def class_entry(name: str, found: Found) -> Iterator[str]:
    """A class: how it is made, what it is, its fields, its verbs."""
    every = members(found)
    made = every.get("__init__")
    is_error = is_of_errors(found)
    if made is not None and not is_error and name not in NOT_MADE:
        yield forms(made, name, is_method=True).replace("def ", "").replace(" -> None", "").replace(": ...", "")
    yield prose(found.doc)
    if is_error and made is not None:
        yield from _attributes(made)
    fields = {key: x for key, x in every.items() if isinstance(x.nodes[0], ast.AnnAssign) and not key.startswith("_")}
    if fields and not is_error:
        yield from (_field(key, x) for key, x in fields.items())
        yield ""
    for key, member in every.items():
        if key.startswith("_") or key in fields or key in HIDDEN.get(name, ()) or key in HIDDEN["*"]:
            continue
        if is_property(member.nodes[0]):
            [node] = member.nodes
            assert isinstance(node, Function)
            kind = f": {ast.unparse(node.returns)}" if node.returns is not None else ""
            yield f"#### `{name}.{key}`\n\n```python\n{key}{kind}\n```\n\n{prose(member.doc)}"
        else:
            yield f"#### `{name}.{key}`\n\n{forms(member, key, is_method=True)}\n{prose(member.doc)}"


def _attributes(made: Found) -> Iterator[str]:
    """Errors carry fields: the keywords they are made with."""
    [node] = made.nodes
    assert isinstance(node, Function)
    shown = [f"`{ast.unparse(arg)}`".replace("'", '"') for arg in node.args.kwonlyargs]
    if shown:
        yield f"Attributes: {', '.join(shown)}.\n"


def _field(name: str, found: Found) -> str:
    [node] = found.nodes
    assert isinstance(node, ast.AnnAssign)
    kind = ast.unparse(node.annotation)
    doc = f": {' '.join(found.doc.split())}" if found.doc else ""
    return f"- `{name}: {kind}`{doc}"


def render(page: Page) -> str:
    """The whole page."""
    names = public_names(page.module)
    placed = {name for section in page.sections for name in section.names}
    parts = [f"# {page.title}\n", "<!-- Made by `python3 dev.py docs` from the docstrings. -->\n", f"{page.text}\n"]
    if page.module == "holdfast.errors":
        parts.append(prose(ast.get_docstring(tree_of(page.module)) or "").partition("\n\n")[2])
    for section in page.sections:
        parts.append(f"## {section.title}\n")
        if section.text:
            parts.append(f"{section.text}\n")
        for name in section.names:
            parts += entry(name, find(name, page.module))
        for name, module in section.extra:
            parts += entry(name, find(name, module))
    rest = [name for name in names if name not in placed]
    elsewhere = [name for name in rest if is_described_elsewhere(name, page)]
    fresh = [name for name in rest if name not in elsewhere]
    if page.sections and fresh:
        parts.append("## More\n")
    for name in fresh:
        parts += entry(name, find(name, page.module))
    if elsewhere:
        parts += [f"## {page.rest}\n", _listed(page, elsewhere)]
    return "\n".join(parts).rstrip("\n") + "\n"


def is_described_elsewhere(name: str, page: Page) -> bool:
    """Errors are on their own page; what sync code shares with async code is on the page of `holdfast`."""
    if page.module == "holdfast":
        return is_of_errors(find(name, page.module))
    return page.module == "holdfast.sync" and name in public_names("holdfast")


def _listed(page: Page, names: Sequence[str]) -> str:
    """Names that are described on another page."""
    rows: list[str] = []
    for name in names:
        found = find(name, page.module)
        where = "errors.md" if is_of_errors(found) else "holdfast.md"
        rows.append(f"- [`{name}`]({where}#{name.lower()}): {found.doc.partition(chr(10))[0]}")
    return "\n".join(rows) + "\n"


INDEX = """# Reference

<!-- Made by `python3 dev.py docs` from the docstrings. -->

{rows}
"""


def pages() -> dict[Path, str]:
    """Every page with its text."""
    rows = "\n".join(
        f"- [{page.title}]({page.path.name}): {page.text.partition('. ')[0].rstrip('.')}" for page in PAGES
    )
    return {FOLDER / "README.md": INDEX.format(rows=rows), **{page.path: render(page) for page in PAGES}}


def main() -> None:
    """Writes them."""
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
