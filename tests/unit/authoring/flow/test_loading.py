"""Flow files: read with the place of everything, checked whole, every problem at once."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path as FilePath
from textwrap import dedent
from typing import Any

import msgspec
import pytest

from holdfast.authoring.flow.expressions import Path, Value
from holdfast.authoring.flow.flow_definition import Approve, Definition, Each, Invoke, Sleep, Wait
from holdfast.authoring.flow.format import definition_bytes, definition_from
from holdfast.authoring.flow.loader import Syntax, check_file, check_text, read_definition
from holdfast.core.retry import Retry
from holdfast.errors import InvalidFlow

ORDER = """\
holdfast: 1
name: order
saga: true
input: {type: object, required: [id]}
vars: {region: {default: eu}, token: {secret: true}}
steps:
  price:
    call: shop.price
    with: {id: "${input.id}", region: "${vars.region}", token: "${vars.token}"}
    retry: {attempts: 3}
  tax:
    if: ${not input.tax_free and steps.price.cents > 1000}
    else: 0
    call: shop.tax
    with: {amount: "${steps.price.cents}"}
    on_error: {value: 0}
  boxes:
    each: {in: "${input.lines ?? []}", limit: 8}
    call: shop.pack
    with: {sku: "${item.sku}", note: "order ${input.id}"}
  ok:
    wait: {signal: approved, timeout: 3d, default: false}
  pause: {sleep: 1h, needs: [ok], always: true}
  gate:
    approve:
      by: finance
      when: ${steps.price.cents > 100000}
      why: order ${input.id}
      timeout: 2d
      then: {escalate: {by: [ann, bob], timeout: 1d, then: approve}}
output: {total: "${steps.price.cents + steps.tax}", boxes: "${steps.boxes}", ok: "${steps.ok}", by: "${steps.gate.by}"}
"""

HEAD = "holdfast: 1\nname: x\n"


def problems(text: str, syntax: Syntax = "yaml", *, warnings: bool = False) -> list[str]:
    found = check_text(dedent(text), "f", syntax).problems
    return [str(each) for each in found if each.is_warning is warnings]


def test_everything_the_format_has() -> None:
    """Contract: each key of the format arrives in the model."""
    flow = check_text(ORDER, "order.yaml").required()
    steps = flow.by_name
    assert (flow.name, flow.saga, flow.input_schema) == ("order", True, {"type": "object", "required": ["id"]})
    assert flow.secrets == {"token"}
    assert [variable.has_default for variable in flow.variables] == [True, False]
    price = steps["price"].does
    assert isinstance(price, Invoke)
    assert (price.target, price.given.get("id")) == ("shop.price", Path("input", ("id",)))
    assert steps["price"].retry == Retry(3)
    assert steps["tax"].otherwise == Value(0)
    assert steps["tax"].fallback == Value(0)
    assert steps["tax"].after == ("price",)
    assert isinstance(steps["boxes"].each, Each)
    assert steps["boxes"].each.limit == 8
    assert steps["ok"].does == Wait("approved", timedelta(days=3), Value(False))
    assert steps["pause"].does == Sleep(Value("1h"))
    assert steps["pause"].after == ("ok",)
    gate = steps["gate"].does
    assert isinstance(gate, Approve)
    assert [each.then for each in gate.gates()][-1] == "approve"
    assert flow.needed == set(steps)
    assert definition_from(definition_bytes(flow)) == flow


def test_json_is_the_same_flow_without_a_yaml_library(monkeypatch: pytest.MonkeyPatch, tmp_path: FilePath) -> None:
    """Contract: JSON flows need no YAML library; YAML ones say which extra brings it."""
    flow = check_text(ORDER, "order.yaml").required()
    file = tmp_path / "order.json"
    file.write_bytes(definition_bytes(flow))
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert read_definition(file) == flow
    with pytest.raises(Exception, match=r"Install it, or write them in JSON: .*\[flows\]"):
        check_text(ORDER, "order.yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: x\n", "f:1:1: the flow needs 'holdfast'"),
        ("holdfast: 2\nname: x\n", "f:1:11: 'holdfast' is the number of the format: 1, not 2"),
        (HEAD + "stepz: {}\n", "f:3:1: a flow has no key 'stepz': did you mean 'steps'?"),
        (HEAD + "steps: []\n", "f:3:8: 'steps' is a mapping from names to steps, not a list"),
        (HEAD + "steps:\n  a: 5\n", "f:4:6: a step (a) is a mapping with call"),
        (HEAD + "steps:\n  a: {}\n", "f:4:6: a step does something"),
        (HEAD + "steps:\n  a: {call: b, sleep: 1s}\n", "f:4:16: a step does one thing"),
        (HEAD + "steps:\n  a: {call: b, timeuot: 1s}\n", "did you mean 'timeout'?"),
        (HEAD + "steps:\n  a: {call: b, timeout: 1x}\n", "f:4:25: 'timeout': '1x' has an unknown unit"),
        (HEAD + "steps:\n  a: {call: b, retry: {attempts: -1}}\n", "f:4:34: 'attempts' is a whole number"),
        (HEAD + "steps:\n  a: {call: b, retry: {attempts: 0}}\n", "a whole number of at least 1, not 0"),
        (HEAD + "steps:\n  a: {call: b, retry: {first: 9s, ceiling: 1s}}\n", "shorter than first"),
        (HEAD + "steps:\n  a: {call: b, retry: {attempts: 1, unlimited: true}}\n", "contradict"),
        (HEAD + "steps:\n  a: {call: b, retry: often}\n", "f:4:23: 'retry' is a number of tries or {attempts: …}"),
        (HEAD + "steps:\n  a: {call: b, on_error: ignore}\n", "'on_error' is fail or {value: …}, not 'ignore'"),
        (HEAD + "steps:\n  a: {call: b, if: input.x}\n", "f:4:20: 'if' is a condition: write ${input.x}"),
        (HEAD + "steps:\n  a: {call: b, else: 1}\n", "'else' needs 'if' beside it"),
        (HEAD + "steps:\n  a: {sleep: 1s, each: {in: []}}\n", "'each' needs 'call' beside it"),
        (HEAD + "steps:\n  a: {call: b, with: [1]}\n", "'with' has the arguments by name"),
        (HEAD + "steps:\n  a: {call: b, needs: c}\n", "'needs' is a list of names"),
        (HEAD + "steps:\n  a: {call: b, needs: [c]}\n", "f:4:24: there is no step 'c'"),
        (HEAD + "steps:\n  a: {call: b, needs: [a]}\n", "step 'a' needs itself"),
        (HEAD + "steps:\n  a: {call: '${input.x}'}\n", "it cannot be an expression"),
        (HEAD + "steps:\n  a: {call: b, each: {in: 5}}\n", "'in' is a list"),
        (
            HEAD + "steps:\n  a: {call: b, each: {in: '${input.x}', limit: 0}}\n",
            "'limit' is a whole number of at least 1",
        ),
        (HEAD + "steps:\n  a: {wait: {}}\n", "f:4:13: 'wait' needs 'signal'"),
        (HEAD + "steps:\n  a: {wait: {signal: s, default: 1}}\n", "'default' needs 'timeout' beside it"),
        (HEAD + "steps:\n  a: {sleep: [1]}\n", "'sleep' is a duration"),
        (HEAD + "steps:\n  a: {approve: {by: 5}}\n", "'by' is a name, a list of names"),
        (HEAD + "steps:\n  a: {approve: {by: b, then: deny}}\n", "'then' needs 'timeout' beside it"),
        (HEAD + "steps:\n  a: {approve: {by: b, timeout: 1d, then: {escalate: {}}}}\n", "'escalate' needs 'by'"),
        (HEAD + "steps:\n  '': {call: b}\n", "f:4:3: the name of a step: '' is empty"),
        (HEAD + "output: ${steps.a}\n", "f:3:11: there is no step 'a'"),
        (HEAD + "output: ${steps}\n", "steps names no step"),
        (HEAD + "output: ${vars.a}\n", "there is no variable 'a'"),
        (HEAD + "output: 'a ${item.x}'\n", "f:3:14: item is the current item of an 'each'"),
        (HEAD + "output: ${1 +}\n", "f:3:14: in '${1 +}': '}' is not expected here"),
        (HEAD + "output: ${imput.x}\n", "did you mean 'input'?"),
        (HEAD + "output: ${1 / 0}\n", "division by zero"),
        (HEAD + f"output: ${{{'(' * 200}1{')' * 200}}}\n", "more than 100 levels"),
        (HEAD + f"output: ${{input.a{' ' * 5000}}}\n", "characters; text with expressions has at most"),
        (HEAD + "input: 5\n", "'input' is a JSON Schema"),
        (HEAD + "input: {properties: {a: {type: strin}}}\n", "f:3:32: this JSON Schema is invalid"),
        (HEAD + "input: {$ref: 'http://127.0.0.1:1/x'}\n", "this JSON Schema is invalid"),
        (
            HEAD + "steps:\n  order: {sleep: 1s}\n  b: {call: b, with: {x: '${steps.order.y}'}}\n",
            "a sleep has no result",
        ),
        (HEAD + "steps:\n  a: {call: b, with: {x: '${steps.a}'}}\n", "step 'a' refers to itself"),
        (HEAD + "steps:\n  a: {call: x}\n", "f:4:13: flow 'x' calls itself"),
        (HEAD + "vars: {a: 5}\n", "a variable (a) is a mapping with default, secret"),
        (HEAD + "saga: maybe\n", "'saga' is true or false, not 'maybe'"),
        ("- 1\n", "f:1:1: a flow is a mapping that begins with `holdfast: 1`, not a list"),
    ],
)
def test_a_problem_has_its_place_and_a_hint(text: str, expected: str) -> None:
    """Contract: what is wrong, at which line and column, and what to do."""
    found = problems(text)
    assert any(expected in each for each in found), found
    assert all(each.startswith("f:") and each[2].isdigit() for each in found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "f:1:1: the file is empty"),
        ("# nothing\n", "f:1:1: the file is empty"),
        ("a: &x 1\n", "f:1:4: an anchor (&x)"),
        ("a: 1\nb: *x\n", "f:2:4: an alias (*x)"),
        ("a: !!python/object/apply:os.system [ls]\n", "f:1:4: a tag"),
        ("a: !x 1\n", "f:1:4: a tag"),
        ("a: 1\nb: 2\na: 3\n", "f:3:1: the key 'a' appears twice; the first is in line 1"),
        ("a:\n\tb: 1\n", "f:2:1: a tab: YAML is indented with spaces"),
        ("a: [1,\n", "this is not YAML"),
        ("a: 1\n---\nb: 2\n", "f:2:1: a second document"),
        ("? [1]\n: 2\n", "a key is text"),
        ("<<: {a: 1}\n", "a merge key"),
        ("a: .nan\n", "not a JSON number"),
        ("a: 99999999999999999999999\n", "f:1:4: the number is too large"),
        ("a: 1e999\n", "the number is too large"),
        ("a: b\x00\n", "f:1:5: the character U+0000"),
        ("[" * 5000, "f:1:65: more than 64 levels"),
        ("".join(f"{' ' * level}a:\n" for level in range(1000)), "f:65:65: more than 64 levels"),
        ("a: {b: [c: {" * 300, "more than 64 levels"),
        ("a: @x\n", "f:1:4: this is not YAML"),
    ],
)
def test_yaml_that_is_refused(text: str, expected: str) -> None:
    """Contract: what multiplies, names classes, contradicts itself or goes too deep is refused with its place."""
    found = problems(text)
    assert any(expected in each for each in found), found


def test_yaml_means_what_yaml_1_2_says() -> None:
    """Contract: `no` is text, `0o17` a number; quoted is always text."""
    first = "a: no, b: 0o17, c: 0x1F, d: '1', e: ~, f: 1.5e3"
    text = HEAD + f"metadata: {{{first}, g: on, h: 1_000, i: True, j: 12:30, k: 2026-01-01}}\n"
    assert check_text(text, "f").required().metadata == {
        "a": "no", "b": 15, "c": 31, "d": "1", "e": None, "f": 1500.0, "g": "on", "h": "1_000", "i": True, "j": "12:30",
        "k": "2026-01-01",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "f:1:1: the JSON ends too early"),
        ('{"a": 1,\n "a": 2}', "f:2:2: the key 'a' appears twice"),
        ('{"a": [1, 2,]}', "f:1:12: a comma before the closing bracket"),
        ('{"a" 1}', "f:1:6: ':' was expected"),
        ("{a: 1}", "f:1:2: a key in double quotes"),
        ('{"a": NaN}', "f:1:7: 'NaN' is not JSON"),
        ('{"a": 1} x', "f:1:10: there is more text"),
        ('{"a": "b', "f:1:7: unterminated string"),
        ('{"a": "\\ud800"}', "f:1:7: half of a surrogate"),
        ('{"a": "x\ny"}', "f:1:9: invalid control character"),
        ('{"a": 1e999}', "f:1:7: the number is too large"),
        ('{"a": 123456789012345678901234567890}', "too large"),
        ("[" * 100_000, "f:1:65: more than 64 levels"),
        ('{"a": [1 2]}', "f:1:10: ',' or ']' was expected"),
    ],
)
def test_json_that_is_refused(text: str, expected: str) -> None:
    """Contract: the same for JSON."""
    found = problems(text, "json")
    assert any(expected in each for each in found), found


def test_cycles_are_named() -> None:
    """Contract: steps that wait for each other are found, each cycle with the way around."""
    text = HEAD + (
        "steps:\n  a: {call: m.f, needs: [b]}\n  b: {call: m.f, with: {x: '${steps.c ?? 1}'}}\n"
        "  c: {call: m.f, if: '${steps.a}'}\n"
        "output: ${steps.a}\n"
    )
    assert problems(text) == ["f:4:3: steps wait for each other in a circle: a → b → c → a"]


def test_steps_and_variables_nobody_needs_are_warnings() -> None:
    """Contract: a step that no output needs is a warning; always: true is how to say that it is meant."""
    steps = "  a: {call: m.f}\n  b: {call: m.f}\n  c: {call: m.f, always: true}\n"
    text = HEAD + f"vars: {{v: {{}}}}\nsteps:\n{steps}output: ${{steps.a}}\n"
    assert problems(text) == []
    assert problems(text, warnings=True) == [
        "f:3:8: variable 'v' is never used (warning)",
        "f:6:3: step 'b' never runs: no output needs it. Mark it always: true, or remove it (warning)",
    ]
    assert problems(HEAD + "steps:\n  a: {call: m.f}\n", warnings=True)[0].startswith("f:1:1: nothing would run")


def test_paths_are_checked_against_the_input_schema() -> None:
    """Contract: a path that the input cannot have is found before anything runs."""
    lines = "{type: array, items: {type: object, properties: {sku: {}}, additionalProperties: false}}"
    schema = f"{{type: object, properties: {{id: {{type: string}}, lines: {lines}}}, additionalProperties: false}}"
    paths = ["input.idd", "input.id.x", "input.lines.a", "input.lines[0].sko", "input.lines[0].sku"]
    output = ", ".join(f"'${{{path}}}'" for path in paths)
    found = problems(HEAD + f"input: {schema}\noutput: [{output}]\n")
    assert [each.partition(": ")[2] for each in found] == [
        "input.idd: by its schema input has no 'idd': did you mean 'id'?",
        "input.id.x: input.id is string by its schema, not object",
        "input.lines.a: input.lines is array by its schema, not object",
        "input.lines[0].sko: by its schema input.lines[0] has no 'sko': did you mean 'sku'?",
    ]


def test_the_output_is_checked_against_its_schema() -> None:
    """Contract: what can be seen not to fit, whatever the data will be, is a problem now."""
    properties = "{a: {type: string}, b: {type: boolean}, c: {type: array, items: {type: integer}}}"
    schema = f"{{type: object, required: [a, z], properties: {properties}, additionalProperties: false}}"
    output = "{a: 5, b: '${input.x * 2}', c: [1, x, '${input.y}'], d: '${input.z}'}"
    found = problems(f"{HEAD}output_schema: {schema}\noutput: {output}\n")
    assert [each.partition(": ")[2] for each in found] == [
        "output: needs 'z', which is missing",
        'output.a: 5 is not of type "string"',
        "output.b: is number, but the schema requires boolean",
        'output.c[1]: "x" is not of type "integer"',
        "output.d: the schema has no 'd'",
    ]


def test_all_problems_come_in_one_error(tmp_path: FilePath) -> None:
    """Contract: one report, in the order of the file; the error has each as data."""
    file = tmp_path / "bad.yaml"
    file.write_text("holdfast: 1\nname: x\noutput: ['${steps.a}', '${vars.b}']\nsaga: 5\n")
    with pytest.raises(InvalidFlow) as caught:
        read_definition(file)
    assert [(each.line, each.column) for each in caught.value.problems] == [(3, 13), (3, 27), (4, 7)]
    assert str(caught.value).startswith(f"{file}: 3 problems:\n  {file}:3:13: there is no step 'a'")


def test_files_that_cannot_be_read(tmp_path: FilePath) -> None:
    """Contract: a missing file, a folder and bytes that are no text are problems like others."""
    assert "cannot be read" in str(check_file(tmp_path / "none.yaml").problems[0])
    assert "cannot be read" in str(check_file(tmp_path).problems[0])
    (tmp_path / "x.yaml").write_bytes(b"holdfast: 1\nname: \xff\n")
    assert str(check_file(tmp_path / "x.yaml").problems[0]).endswith("x.yaml:2:7: the file is not UTF-8 text")
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbf" + HEAD.encode())
    assert check_file(tmp_path / "bom.yaml").definition == Definition("x", ())


def test_a_yaml_bomb_costs_nothing() -> None:
    """Contract: nothing in a file is multiplied: anchors and aliases are told of, a hundred at most, and stand for
    nothing."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"] + [
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)
    ]
    found = problems("\n".join(lines))
    assert found[0] == "f:1:5: an anchor (&a0) is not allowed in flows: write the value out"
    assert len(found) == 101
    assert found[-1].endswith("and perhaps more: fix these first")


@pytest.mark.parametrize("syntax", ["yaml", "json"])
def test_a_duplicate_key_hides_no_other_problem(syntax: Syntax) -> None:
    """Promise: duplicate ids are in the same report as everything else; the first of them is read on."""
    text = """{"holdfast": 1, "name": "x",
"steps": {"a": {"sleep": "1s"},
  "a": {"sleep": "2s"},
  "a": {"sleep": "3s"},
  "b": {"slep": "1s"}},
"output": "${steps.c}"}"""
    assert problems(text, syntax) == [
        "f:3:3: the key 'a' appears twice; the first is in line 2",
        "f:4:3: the key 'a' appears twice; the first is in line 2",
        "f:5:8: a step does something: add call, wait, sleep or approve",
        "f:5:9: a step has no key 'slep': did you mean 'sleep'?",
        "f:6:14: there is no step 'c'",
    ]


def test_what_flows_do_not_have_of_yaml_is_told_of_at_once() -> None:
    """Promise: anchors, aliases, tags and merge keys are one report too, with what else is wrong."""
    text = HEAD + "metadata: {a: &one 1, b: *one, c: !t 2, <<: {d: 3}}\nsteps:\n  s: {slep: 1s}\n"
    assert [each.partition(": ")[2].partition(" is not allowed")[0] for each in problems(text)][:4] == [
        "an anchor (&one)",
        "an alias (*one)",
        "a tag (!t)",
        "a merge key (<<)",
    ]
    assert any("did you mean 'sleep'?" in each for each in problems(text))


def calls_while_checking(count: int, syntax: Syntax, kind: str) -> int:
    """How many Python functions are called for a flow of so many steps."""
    steps: dict[str, Any] = {}
    for number in range(count):
        needs = f"${{steps.s{number - 1}.x}}" if kind == "chain" and number else "${input.id}"
        steps[f"s{number}"] = {"call": "shop.f" if number else "shop.first", "with": {"x": needs}}
    output = f"${{steps.s{count - 1}}}" if kind == "chain" else {name: f"${{steps.{name}}}" for name in steps}
    text = msgspec.json.encode({"holdfast": 1, "name": "big", "steps": steps, "output": output}).decode()
    calls = 0

    def count_call(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count_call)
    try:
        checked = check_text(text, "big", syntax)
    finally:
        sys.setprofile(before)
    assert checked.problems == ()
    assert len(checked.required().steps) == count
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["chain", "wide"])
@pytest.mark.parametrize("syntax", ["json", "yaml"])
def test_work_grows_with_the_number_of_steps(syntax: Syntax, kind: str) -> None:
    """Contract: checking a flow is linear in its steps (counted in function calls, not in seconds)."""
    few, many = calls_while_checking(200, syntax, kind), calls_while_checking(2000, syntax, kind)
    assert many < few * 12


@pytest.mark.slow
def test_many_misspelt_names_stay_cheap() -> None:
    """Contract: hints are bounded, so a file of wrong names is no attack."""
    steps = {f"step{n}": {"call": "m.f", "with": {"x": f"${{steps.stepp{n}}}"}} for n in range(2000)}
    text = msgspec.json.encode({"holdfast": 1, "name": "big", "steps": steps}).decode()
    found = problems(text, "json")
    assert len(found) == 2000
    assert sum("did you mean" in each for each in found) <= 20
