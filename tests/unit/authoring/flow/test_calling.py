"""What a flow calls, checked against an app: flows that call each other, variables of sub-flows, secrets."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import App, step
from holdfast.authoring.flow.loader import check_text
from holdfast.cli.commands.flow.file import catalog_of
from tests.support.flows import flow

HEAD = "holdfast: 1\nname: x\n"


@step
async def pay(cents: int) -> int:
    return cents


def calling(name: str, *targets: str, **more: Any) -> Any:
    """A flow that calls these."""
    steps = {f"s{number}": {"call": target} for number, target in enumerate(targets)}
    return flow(name, steps, [f"${{steps.{key}}}" for key in steps], **more)


def found(text: str, *served: Any, warnings: bool = False) -> list[str]:
    """What is wrong with a file beside what an app serves."""
    problems = check_text(text, "f", catalog=catalog_of(App("memory://", workflows=served))).problems
    return [str(problem) for problem in problems if problem.is_warning is warnings]


def test_flows_that_call_each_other_are_found_however_far_away() -> None:
    """Contract: a way back to the flow itself, and a circle of others that it leads to; once for each call."""
    text = HEAD + "steps:\n  s: {call: a}\n  t: {call: pay, with: {cents: 1}}\noutput: ['${steps.s}', '${steps.t}']\n"
    through = [calling("a", "b", "pay"), calling("b", "c"), pay]
    assert found(text, *through, calling("c", "pay")) == []
    assert found(text, *through, calling("c", "x", "pay")) == [
        "f:4:13: flows call each other in a circle: x → a → b → c → x"
    ]
    assert found(text, *through, calling("c", "pay", "b")) == ["f:4:13: flows call each other in a circle: b → c → b"]
    assert found(text, *through, calling("c", "c")) == ["f:4:13: flows call each other in a circle: c → c"]


def test_flows_that_share_what_they_call_are_no_circle() -> None:
    """Contract: two ways to one flow are fine, and the search does not go each way again."""
    rows = [calling(f"r{number}", f"r{number + 1}", f"r{number + 1}", f"q{number + 1}") for number in range(40)]
    others = [calling(f"q{number}", f"r{number + 1}" if number < 40 else "pay") for number in range(1, 41)]
    text = HEAD + "steps:\n  s: {call: r0}\noutput: ${steps.s}\n"
    assert found(text, *rows, *others, calling("r40", "pay"), pay) == []


@dataclass
class Line:
    sku: str


@dataclass
class Bill:
    cents: int
    lines: list[Line]
    notes: dict[str, Line]
    rest: Any = None
    line: Line | None = None


@step
async def bill(number: int) -> Bill:
    return Bill(number, [], {})


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("cents", ""),
        ("lines[0].sku", ""),
        ("notes.any.sku", ""),
        ("rest.of.it[0]", ""),
        ("line.whatever", ""),
        ("sents", "steps.s.sents: by its type steps.s has no 'sents': did you mean 'cents'?"),
        ("cents.x", "steps.s.cents.x: steps.s.cents is int by its type, not object"),
        ("lines.sku", "steps.s.lines.sku: steps.s.lines is array by its type, not object"),
        ("lines[0].sko", "steps.s.lines[0].sko: by its type steps.s.lines[0] has no 'sko': did you mean 'sku'?"),
        ("notes.any.sko", "steps.s.notes.any.sko: by its type steps.s.notes.any has no 'sko': did you mean 'sku'?"),
        ("[0]", "steps.s[0]: steps.s is object by its type, not array"),
    ],
)
def test_a_way_into_what_a_component_gives_is_checked_by_its_type(way: str, expected: str) -> None:
    """Promise: a field that the type of a step's result never has is a problem before anything runs; where the type
    leaves it open, or the step may have another value, nothing is said."""
    dot = "" if way.startswith("[") else "."

    def using(more: str, path: str) -> str:
        return HEAD + f"steps:\n  s: {{call: bill, with: {{number: 1}}{more}}}\noutput: ${{{path}}}\n"

    assert found(using("", f"steps.s{dot}{way}"), bill) == ([f"f:5:11: {expected}"] if expected else [])
    assert found(using(", on_error: {value: 0}", f"steps.s{dot}{way}"), bill) == []
    each = found(using(", each: {in: '${input}'}", f"steps.s[2]{dot}{way}"), bill)
    assert each == ([f"f:5:11: {expected.replace('steps.s', 'steps.s[2]')}"] if expected else [])


def test_a_way_into_what_a_flow_gives_is_checked_by_its_schema() -> None:
    """Promise: the same for a sub-flow that has a schema of its output."""
    closed = {"type": "object", "properties": {"total": {"type": "integer"}}, "additionalProperties": False}
    inner = flow("inner", {}, {"total": 1}, output_schema=closed)
    text = HEAD + "steps:\n  s: {call: inner}\noutput: ['${steps.s.total}', '${steps.s.totl}']\n"
    assert found(text, inner) == ["f:5:33: steps.s.totl: by its schema steps.s has no 'totl': did you mean 'total'?"]


@step
async def print_bill(text: str = "", cents: float = 0, lines: list[Line] | None = None, any: Any = None) -> None: ...


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            "text: '${steps.s.lines[0].sku}', cents: '${steps.s.cents}', lines: '${steps.s.lines}', any: '${steps.s}'",
            "",
        ),
        ("text: '${steps.s.rest}', any: '${steps.s.line}', lines: '${input.b}'", ""),
        ("text: '${steps.s.cents ?? 1}', cents: '${vars.v}', lines: '${steps.e}'", ""),
        ("text: '${steps.s.cents}'", "steps.s.cents is int, but print_bill takes str for 'text'"),
        ("lines: '${steps.s}'", "steps.s is object, but print_bill takes array or null for 'lines'"),
        ("text: '${steps.e}'", "steps.e is array, but print_bill takes str for 'text'"),
        ("cents: '${steps.e[0].lines}'", "steps.e[0].lines is array, but print_bill takes float for 'cents'"),
        ("cents: '${input.a}'", "input.a is null or str, but print_bill takes float for 'cents'"),
    ],
)
def test_what_is_handed_on_is_of_a_kind_that_can_be_taken(given: str, expected: str) -> None:
    """Promise: a result, or a part of the input, that can never be what an argument takes is a problem before anything
    runs; whole numbers are numbers, and where a type, a schema or an expression leaves it open nothing is said."""
    schema = "input: {type: object, properties: {a: {type: [string, 'null']}, b: {}}}\nvars: {v: {default: x}}\n"
    steps = "  s: {call: bill, with: {number: 1}}\n  e: {call: bill, with: {number: 1}, each: {in: [1]}}\n"
    text = f"{HEAD}{schema}steps:\n{steps}  p: {{call: print_bill, always: true, with: {{{given}}}}}\n"
    problems = [one.partition(": ")[2] for one in found(text, bill, print_bill) if "never" not in one]
    assert problems == ([expected] if expected else [])


def test_what_is_handed_on_to_a_sub_flow_fits_its_schema() -> None:
    """Promise: the same by the schemas of flows."""
    takes = {"type": "object", "properties": {"name": {"type": "string"}, "any": {"anyOf": [{"type": "string"}]}}}
    inner = flow("inner", {}, 1, input=takes, output_schema={"type": "integer"})
    text = HEAD + "steps:\n  a: {call: inner}\n  b: {call: inner, with: {any: '${steps.a}', name: '${steps.a}'}}\n"
    [problem] = [one for one in found(text + "output: ${steps.b}\n", inner) if "steps.a" in one]
    assert problem.endswith("steps.a is int, but inner takes str for 'name'")


def test_variables_of_a_sub_flow_are_checked() -> None:
    """Contract: names it does not have, and those it has to be given; what is no flow has none."""
    inner = flow("inner", {}, "${vars.region} ${vars.token}", vars={"region": {"default": "eu"}, "token": {}})

    def step_with(keys: str) -> str:
        return HEAD + f"steps:\n  s: {{call: {keys}}}\noutput: ${{steps.s}}\n"

    assert found(step_with("inner, vars: {token: '${input}'}"), inner) == []
    assert found(step_with("inner, vars: {tokn: 1}"), inner) == [
        "f:4:13: flow 'inner' needs variable 'token', which 'vars' does not have",
        "f:4:27: flow 'inner' has no variable 'tokn': did you mean 'token'?",
    ]
    assert found(step_with("pay, with: {cents: 1}, vars: {token: 1}"), pay) == [
        "f:4:36: pay is not a flow: only a flow has variables"
    ]
    assert found(step_with("inner, vars: [1]"), inner)[1] == (
        "f:4:26: 'vars' has variables by name: vars: {id: ${input.id}}"
    )
    assert found(HEAD + "steps:\n  s: {sleep: 1h, vars: {a: 1}}\n")[0] == "f:4:18: 'vars' needs 'call' beside it"
    assert "there is no step 'z'" in found(step_with("inner, vars: {token: '${steps.z}'}"), inner)[0]


def test_a_secret_that_would_be_shown_is_a_warning() -> None:
    """Contract: in an output, and in a variable of a sub-flow that is no secret there; each with its place."""
    open_one = flow("open", {}, "${vars.key}", vars={"key": {}})
    closed = flow("closed", {}, 1, vars={"key": {"secret": True}})
    text = HEAD + (
        "vars: {token: {secret: true}}\nsteps:\n"
        "  a: {call: open, vars: {key: '${vars.token}'}}\n"
        "  b: {call: closed, vars: {key: '${vars.token}'}}\n"
        "output: {a: '${steps.a}', b: '${steps.b}', c: ['Bearer ${vars.token}']}\n"
    )
    assert found(text, open_one, closed) == []
    assert found(text, open_one, closed, warnings=True) == [
        "f:5:34: vars.token is a secret, but variable 'key' of flow 'open' is not (warning)",
        "f:7:58: vars.token is a secret, but an output is shown (warning)",
    ]


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """A web server that notes who asks."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "string"}')

        def log_message(self, format: str, *args: Any) -> None: ...

    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{served.server_port}", asked
    served.shutdown()
    thread.join()
    served.server_close()


@pytest.mark.parametrize("key", ["input", "output_schema"])
def test_a_schema_never_fetches_another(key: str, server: tuple[str, list[str]], tmp_path: Any) -> None:
    """Contract: a reference to elsewhere, on the network or the disk, is a problem with its place; nobody is asked."""
    url, asked = server
    (tmp_path / "other.json").write_text('{"type": "string"}')
    for place in (f"{url}/other.json", f"file://{tmp_path}/other.json", "https://schemas.invalid/a.json"):
        problems = found(HEAD + f"{key}: {{type: object, properties: {{a: {{$ref: '{place}'}}}}}}\noutput: {{a: 1}}\n")
        assert len(problems) == 1
        assert "this JSON Schema is invalid" in problems[0]
        assert problems[0].startswith("f:3:")
    assert asked == []
