"""`holdfast flow`: files checked, drawn and run from the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Cli

SHOP = """
from holdfast import App, Retry, step

@step
async def price(id: int, region: str = "eu") -> dict[str, int]:
    return {"cents": id * 100}

@step(retry=Retry.none)
async def tax(amount: int) -> int:
    return amount // 10

app = App(workflows=["prices"])
"""

ORDER = """\
holdfast: 1
name: order
input: {type: object, required: [id]}
vars: {region: {default: eu}}
steps:
  price: {call: prices.price, with: {id: "${input.id}", region: "${vars.region}"}}
  tax: {call: prices.tax, with: {amount: "${steps.price.cents}"}}
output: {total: "${steps.price.cents + steps.tax}", region: "${vars.region}"}
"""


@pytest.fixture
def shop(cli: Cli) -> Cli:
    (cli.folder / "prices.py").write_text(SHOP)
    (cli.folder / "order.yaml").write_text(ORDER)
    return cli


def change(shop: Cli, old: str, new: str) -> None:
    assert old in ORDER
    (shop.folder / "order.yaml").write_text(ORDER.replace(old, new))


def test_check_says_that_nothing_is_wrong(shop: Cli) -> None:
    """Contract: exit code 0, and one line."""
    assert shop.ok("flow", "check", "order.yaml") == "order.yaml: flow order, 2 steps: no problems, no warnings\n"
    assert shop.ok("flow", "check", "order.yaml", "prices:app").endswith("no problems, no warnings\n")
    answer = shop("flow", "check", "order.yaml", "--json").json
    assert (answer["ok"], answer["name"], answer["steps"], answer["problems"]) == (True, "order", ["price", "tax"], [])
    assert len(answer["hash"]) == 64


def test_check_prints_every_problem_with_its_place(shop: Cli) -> None:
    """Contract: exit code 1, a line for each problem, the same as data with --json."""
    change(shop, "steps.price.cents}", "steps.prise.cents}")
    answer = shop("flow", "check", "order.yaml")
    assert answer.code == 1
    assert answer.out.splitlines() == [
        "order.yaml:7:45: there is no step 'prise': did you mean 'price'?",
        "order.yaml: 1 problem, no warnings",
    ]
    found = shop("flow", "check", "order.yaml", "--json")
    assert found.code == 1
    assert found.json["problems"] == [
        {"message": "there is no step 'prise': did you mean 'price'?", "line": 7, "column": 45, "severity": "error"}
    ]


def test_a_step_that_is_never_run_is_a_warning(shop: Cli) -> None:
    """Contract: warnings are printed and do not fail the check."""
    change(shop, " + steps.tax", "")
    out = shop.ok("flow", "check", "order.yaml")
    assert "order.yaml:7:3: step 'tax' never runs" in out
    assert out.endswith("no problems, 1 warning\n")


def test_with_an_app_what_is_called_is_checked_too(shop: Cli) -> None:
    """Contract: components that are not there, arguments they do not take or lack, and constants of another type."""
    change(shop, "prices.tax, with: {amount: ", "prices.tex, with: {amount: ")
    assert shop("flow", "check", "order.yaml").code == 0
    answer = shop("flow", "check", "order.yaml", "prices:app")
    assert answer.code == 1
    assert "order.yaml:7:15: the app serves no step or workflow 'prices.tex': did you mean 'prices.tax'?" in answer.out
    change(shop, '{id: "${input.id}", region: "${vars.region}"}', "{idd: 5, region: 7}")
    out = shop("flow", "check", "order.yaml", "prices:app").out
    assert "price(id, region) takes no 'idd': did you mean 'id'?" in out
    assert "price needs 'id', which 'with' does not have" in out
    assert "price: region: expected `str`, got `int`" in out


def test_what_is_typed_wrong_is_wrong_usage(shop: Cli) -> None:
    """Contract: exit code 2 for a file that is not there and a command that does not exist."""
    assert shop("flow", "check", "none.yaml").code == 2
    answer = shop("flow", "chekc", "order.yaml")
    assert answer.code == 2
    assert "Did you mean check?" in answer.err


def test_the_picture_and_the_schema(shop: Cli) -> None:
    """Contract: Mermaid or SVG on standard output; the schema as JSON."""
    assert shop.ok("flow", "diagram", "order.yaml").startswith("flowchart TD\n")
    assert shop.ok("flow", "diagram", "order.yaml", "--svg").startswith("<svg ")
    assert json.loads(shop.ok("flow", "schema"))["title"] == "Holdfast flow"
    assert "check" in shop.ok("flow", "--help")


def test_run_brings_a_flow_to_its_end(shop: Cli) -> None:
    """Contract: the result as JSON; the same id again is the same run; what is wrong with the input is wrong usage."""
    run = ("flow", "run", "order.yaml", "prices:app", "--input", '{"id": 3}')
    assert json.loads(shop.ok(*run, "--id", "o-3")) == {"total": 330, "region": "eu"}
    again = shop.ok("flow", "run", "order.yaml", "prices:app", "--input", '{"id": 3}', "--id", "o-3", "--json")
    shown = {"run": "o-3", "outcome": "existing", "status": "completed", "result": {"total": 330, "region": "eu"}}
    assert json.loads(again) == shown
    assert json.loads(shop.ok(*run, "--var", "region=us")) == {"total": 330, "region": "us"}
    wrong = shop("flow", "run", "order.yaml", "prices:app", "--input", "{}")
    assert wrong.code == 2
    assert '"id" is a required property' in wrong.err
    assert shop("flow", "run", "order.yaml", "prices:app", "--input", "{").code == 2
    assert shop("flow", "run", "order.yaml", "prices:app", "--var", "regoin=x", "--input", '{"id": 1}').code == 2


def test_run_refuses_a_flow_that_has_problems(shop: Cli) -> None:
    """Contract: nothing is started before the file is right."""
    change(shop, "prices.tax", "prices.tex")
    answer = shop("flow", "run", "order.yaml", "prices:app", "--input", '{"id": 3}')
    assert answer.code == 1
    assert "prices.tex" in answer.err
    assert not Path(shop.folder / "store.db").exists()


def test_a_detached_run_is_finished_by_a_worker_of_the_app(shop: Cli) -> None:
    """Contract: a worker that never saw the file executes the definition stored with the run."""
    started = shop.ok("flow", "run", "order.yaml", "prices:app", "--input", '{"id": 5}', "--id", "o-5", "--detach")
    assert started == "o-5\n"
    (shop.folder / "order.yaml").unlink()
    (shop.folder / "shop.py").write_text("from prices import app\n")
    for name in ("prices", "shop"):  # as the next process would find them
        sys.modules.pop(name, None)
    shop.finish("o-5")
    assert shop("show", "o-5", "--json").json["result"] == {"total": 550, "region": "eu"}


def test_a_flow_over_the_lines_of_a_file(shop: Cli) -> None:
    """Contract: one result a line, in the order of the inputs; the same command again runs nothing twice."""
    (shop.folder / "in.jsonl").write_text('{"id": 1}\n\n{"id": 2}\n')
    words = ("flow", "batch", "order.yaml", "prices:app", "--inputs", "in.jsonl", "--out", "out.jsonl", "--json")
    first = shop(*words, "--var", "region=us")
    assert first.code == 0, first.err
    results = [json.loads(line) for line in (shop.folder / "out.jsonl").read_text().splitlines()]
    assert results == [
        {"index": 0, "status": "completed", "result": {"total": 110, "region": "us"}},
        {"index": 1, "status": "completed", "result": {"total": 220, "region": "us"}},
    ]
    assert shop(*words, "--var", "region=us").json == first.json
    assert len(shop.ok("runs", "--workflow", "order").splitlines()) == 2
    assert (first.json["total"], first.json["completed"]) == (2, 2)
    assert shop(*words).json["batch"] != first.json["batch"]  # other variables, another batch


def test_a_line_that_does_not_fit_the_flow_starts_nothing(shop: Cli) -> None:
    """Contract: wrong usage, with the line and the path; no run is made."""
    for line, reason in (("{}", '"id" is a required property'), ("{", "not JSON")):
        (shop.folder / "in.jsonl").write_text(f'{{"id": 1}}\n{line}\n')
        answer = shop("flow", "batch", "order.yaml", "prices:app", "--inputs", "in.jsonl", "--out", "out.jsonl")
        assert answer.code == 2
        assert "in.jsonl, line 2: " in answer.err
        assert reason in answer.err
    assert not (shop.folder / "out.jsonl").exists()
