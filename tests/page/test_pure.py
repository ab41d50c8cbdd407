"""What the page computes without a browser: sentences, durations, streams cut anywhere, timelines, graphs, forms."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
import pytest

from holdfast.cli.root import root
from holdfast.core.doing import Doing, Kind, Occupation, describe
from holdfast.core.durations import format_duration
from holdfast.core.events import AnyEvent
from tests.page.bundle import ROOT
from tests.page.pure import evaluate

NOW = datetime(2026, 11, 18, 12, 41, 7, 250_000, tzinfo=UTC)
MS = NOW.timestamp() * 1000


def test_the_page_says_what_the_command_line_says(rng: random.Random) -> None:
    """Contract: one sentence for one state, wherever it is read."""
    waits = [
        None,
        *(timedelta(milliseconds=rng.choice([1, -1]) * rng.randint(0, 10 ** rng.randint(1, 11))) for _ in range(60)),
    ]
    cases: list[Doing] = []
    for kind in get_args(Kind):
        for wait in waits:
            until = None if wait is None else NOW + wait
            attempt, of = rng.randint(1, 4), rng.choice([None, 5])
            detail = rng.choice(["", "card network down"])
            one = Occupation(kind, rng.choice(["", "charge:1"]), until, attempt, of, detail)
            cases.append(Doing((one,) * rng.randint(1, 2), rng.choice([0, 3])))
    said = evaluate(*(["sentence", {"more": 0, **msgspec.to_builtins(case)}, MS] for case in cases))
    for case, text in zip(cases, said, strict=True):
        assert text == describe(case, NOW), case


def part(offset: int, value: Any, attempt: int = 1, state: str = "open", step: str = "model") -> dict[str, Any]:
    return {"offset": offset, "step": step, "attempt": attempt, "state": state, "value": value}


def test_parts_of_one_attempt_are_one_block_and_superseded_ones_are_marked() -> None:
    """Contract: texts are joined, other values have lines of their own; a part that was read while its attempt ran is
    judged by what became of the attempt since, or by a later attempt."""
    parts = [
        part(0, "he", state="superseded"),
        part(1, "ll", attempt=2),
        part(2, "o", attempt=2),
        part(3, {"n": 1}, attempt=2),
        part(4, "again", attempt=3),
        part(5, "own", step="", state="completed"),
    ]
    timeline = [{"kind": "step", "key": "model", "attempt": 3, "outcome": "completed"}]
    blocks, unknown, cut = evaluate(
        ["blocks", parts, timeline],
        ["blocks", parts[1:3], []],
        ["blocks", parts[1:3], [{**timeline[0], "attempt": 2, "outcome": "cut off"}]],
    )
    assert [(one["step"], one["attempt"], one["state"], one["text"]) for one in blocks] == [
        ("model", 1, "superseded", "he"),
        ("model", 2, "superseded", 'llo\n{"n":1}'),
        ("model", 3, "completed", "again"),
        ("", 1, "completed", "own"),
    ]
    assert [(one["first"], one["last"], one["state"]) for one in unknown] == [(1, 2, "open")]
    assert [one["state"] for one in cut] == ["superseded"]


def test_durations_read_as_on_the_command_line(rng: random.Random) -> None:
    lengths = [
        0,
        1,
        999,
        1000,
        1001,
        59_999,
        60_000,
        *(rng.randint(0, 10**power) for power in range(1, 12) for _ in range(5)),
    ]
    said = evaluate(*(["duration", length] for length in lengths))
    assert said == [format_duration(timedelta(milliseconds=length)) for length in lengths]


def test_a_stream_is_read_the_same_wherever_it_is_cut(rng: random.Random) -> None:
    """Contract: a message is neither lost nor doubled nor split, however the network delivers it."""
    one = 'retry: 1000\n\n: still there\n\nevent: turn\nid: 17\ndata: {"a":\ndata: "é ✓"}\n\n'
    whole = one + "id: 18\r\ndata: b\r\n\r\ndata: unfinished"
    expected = [{"event": "turn", "id": "17", "data": '{"a":\n"é ✓"}'}, {"event": "message", "id": "18", "data": "b"}]
    cuts = [sorted(rng.sample(range(len(whole) + 1), k=rng.randint(0, 12))) for _ in range(200)]
    ways = [[whole[a:b] for a, b in pairwise([0, *places, len(whole)])] for places in cuts]
    for found in evaluate(*(["parse", way] for way in ways)):
        assert found == expected


def test_every_fact_has_words_of_its_own() -> None:
    """Promise: no event of a journal is shown by its name in the store alone."""
    source = (ROOT / "ui" / "src" / "run" / "facts.ts").read_text(encoding="utf-8")
    tags = {str(one.__struct_config__.tag) for one in get_args(AnyEvent)}
    assert len(tags) > 30
    assert {tag for tag in tags if f"case '{tag}':" not in source} == {"completed"}
    waiting = {"type": "limited", "data": {"waiting": {"answer": "model"}, "begun": []}}
    begun = {"type": "limited", "data": {"waiting": {}, "begun": ["answer"]}}
    assert evaluate(["factOf", waiting], ["factOf", begun]) == [
        ["waits for a place", "answer", "of model"],
        ["has its place", "answer", ""],
    ]


def test_the_commands_that_pages_name_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: what an empty page says to type is a command with these arguments and options."""
    said: list[str] = []
    for file in sorted((ROOT / "ui" / "src" / "pages").glob("*.tsx")):
        for block in re.findall(r'aria-label="command">(.+?)</pre>', file.read_text(encoding="utf-8")):
            said += block.removeprefix("{'").removesuffix("'}").split("\\n")
    assert len(said) > 5
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inputs.jsonl").touch()
    for line in said:
        _, *words = line.split()
        context = click.Context(root)
        while isinstance(context.command, click.Group):
            name, command, words = context.command.resolve_command(context, words)
            assert command is not None
            context = click.Context(command, context, name)
        context.command.parse_args(context, words)  # raises for an option or an argument that there is not


def test_an_error_in_a_list_begins_with_what_was_raised() -> None:
    """Promise: not with the words that every failed step has; other errors are left as they are."""
    told = {
        "StepFailed: step refuse failed after 1 attempt: ValueError: no price": "refuse: ValueError: no price",
        "run b/3 failed: StepFailed: step a:1 failed after 12 attempts: KeyError: 'x'": "a:1: KeyError: 'x'",
        "run b/3 failed: ValueError: odd": "ValueError: odd",
        "ValueError: step refuse failed after 1 attempt": "ValueError: step refuse failed after 1 attempt",
    }
    assert evaluate(*(["brief", error] for error in told)) == [*told.values()]


def test_text_that_would_act_is_shown_as_its_code() -> None:
    hostile = "a\x1b[31mred\u202egnp.exe\u2066\x00\r\nשלום\t"
    (shown,) = evaluate(["plain", hostile])
    assert shown == "a\\u001b[31mred\\u202egnp.exe\\u2066\\u0000\\u000d\nשלום\t"


# -- the timeline ------------------------------------------------------------------------------------------------------


def at(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def entry(number: int, start: float, end: float | None, key: str, outcome: str, **more: Any) -> dict[str, Any]:
    ended = None if end is None else at(end)
    return {
        "number": number, "ordinal": number, "at": at(start), "kind": "step", "key": key, "outcome": outcome,
        "ended_at": ended, "text": key, **more,
    }  # fmt: skip


def crashed_story() -> dict[str, Any]:
    return {
        "run": {"created_at": at(0), "ended_at": None},
        "timeline": [
            entry(1, 0, 2, "charge", "completed", epoch=1),
            entry(2, 2, None, "email", "cut off", epoch=1),
            {"number": 3, "ordinal": 3, "at": at(9), "kind": "taken over", "text": "taken over"},
            entry(4, 9, 10, "email", "failed", epoch=2, until=at(14), attempt=2),
            entry(5, 14, None, "email", "open", epoch=2, attempt=3),
            entry(6, 9, None, "nap", "open", kind="sleep", epoch=2),
        ],
        "holders": [
            {"worker": "w1", "epoch": 1, "from": at(0), "until": at(9), "last_seen": at(3), "end": "crashed"},
            {"worker": "w2", "epoch": 2, "from": at(9), "until": None, "last_seen": at(14), "end": "held"},
        ],
        "crashes": [
            {
                "worker": "w1", "epoch": 1, "last_seen": at(3), "cut": ["email"],
                "taken_over_at": at(9), "by": "w2", "after_seconds": 6.0,
            }
        ],
    }  # fmt: skip


def test_a_crash_is_drawn_as_it_happened() -> None:
    """Contract: an attempt that was cut off lasts until the take-over, and the next one begins there."""
    (drawn,) = evaluate(["chart", crashed_story(), MS + 20_000])

    def bars(key: str) -> list[tuple[str, float, float]]:
        (row,) = [row for row in drawn["rows"] if row["key"] == key]
        return [(bar["look"], (bar["from"] - MS) / 1000, (bar["to"] - MS) / 1000) for bar in row["bars"]]

    assert bars("charge") == [("completed", 0, 2)]
    assert bars("email") == [("cut", 2, 9), ("failed", 9, 10), ("retry", 10, 14), ("open", 14, 20)]
    assert bars("nap") == [("wait", 9, 20)]
    assert [(band["worker"], (band["from"] - MS) / 1000, (band["to"] - MS) / 1000) for band in drawn["bands"]] == [
        ("w1", 0, 3),
        ("w2", 9, 20),
    ]
    (silence,) = drawn["silences"]
    assert (silence["died"][0], silence["tookOver"][0]) == ("w1 died, email cut off", "w2 took over after 6.0 s")


def test_a_wait_for_an_update_is_drawn_and_its_answer_marked() -> None:
    """Contract: a run that waits to be asked has a bar for it, and the question and the answer are moments."""
    told = [
        {"number": number, "ordinal": number, "at": at(number), "kind": kind, "text": kind}
        for number, kind in ((2, "asked"), (3, "answered"), (4, "streamed"))
    ]
    waits = entry(1, 0, None, "", "open", kind="update", name="reassign")
    run = {"created_at": at(0), "ended_at": None}
    (drawn,) = evaluate(["chart", {"run": run, "timeline": [waits, *told], "holders": [], "crashes": []}, MS + 9_000])
    assert [(row["label"], [bar["look"] for bar in row["bars"]]) for row in drawn["rows"]] == [("reassign", ["wait"])]
    assert [moment["kind"] for moment in drawn["moments"]] == ["asked", "answered", "streamed"]


def test_the_axis_has_round_steps_and_no_more_than_fit(rng: random.Random) -> None:
    spans = [(rng.uniform(-5, 10 ** rng.randint(1, 9)), 10 ** rng.uniform(0.5, 10)) for _ in range(100)]
    answers = evaluate(*(["ticks", start, start + length, 9] for start, length in spans))
    for (start, length), marks in zip(spans, answers, strict=True):
        assert len(marks) <= 10
        assert all(start <= mark["at"] <= start + length for mark in marks)
        assert len({mark["label"] for mark in marks}) == len(marks), marks


# -- graphs and forms --------------------------------------------------------------------------------------------------


def test_boxes_of_a_graph_never_overlap_and_follow_what_they_need(rng: random.Random) -> None:
    graphs = []
    for _ in range(40):
        names = [f"n{number}" for number in range(rng.randint(1, 14))]
        edges = [[a, b] for a in names for b in names if rng.random() < 0.15]
        graphs.append(([{"name": name, "width": rng.randint(60, 180)} for name in names], edges))
    for (nodes, edges), found in zip(graphs, evaluate(*(["laidOut", *graph] for graph in graphs)), strict=True):
        placed = {node["name"]: node for node in found["nodes"]}
        assert placed.keys() == {node["name"] for node in nodes}
        for way in found["ways"]:
            if not way["isBack"]:
                assert placed[way["from"]]["layer"] < placed[way["to"]]["layer"]
        assert len(found["ways"]) == len(edges)
        rows: dict[int, list[tuple[float, float]]] = {}
        for node in placed.values():
            rows.setdefault(node["layer"], []).append((node["x"] - node["width"] / 2, node["x"] + node["width"] / 2))
        for row in rows.values():
            assert all(a[1] < b[0] for a, b in pairwise(sorted(row)))


def test_a_form_begins_with_a_value_for_everything_required() -> None:
    schema = {
        "type": "object",
        "properties": {
            "order": {"$ref": "#/$defs/Order"},
            "gift": {"type": "boolean", "default": True},
            "speed": {"enum": ["slow", "fast"]},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["order", "speed"],
        "$defs": {
            "Order": {
                "type": "object",
                "properties": {"id": {"type": "string"}, "cents": {"type": "integer"}, "tags": {"type": "array"}},
                "required": ["id", "cents", "tags"],
            }
        },
    }
    (value,) = evaluate(["initial", schema, schema])
    assert value == {"order": {"id": "", "cents": 0, "tags": []}, "gift": True, "speed": "slow", "note": None}
