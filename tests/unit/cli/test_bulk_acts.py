"""`cancel`, `kill`, `pause`, `resume` and `retry` on several runs, and on all that match a filter."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import Cli


def statuses(cli: Cli) -> dict[str, str]:
    return {line.split("\t")[0]: line.split("\t")[1] for line in cli.ok("runs").splitlines()}


def test_several_runs_are_named_by_their_ids(cli: Cli) -> None:
    """Contract: all are acted on, and the answer counts them; if one is not there, nothing is done."""
    for name in "abc":
        cli.start("hello", "name=x", "--id", name)
    assert "no run 'z'" in cli("pause", "a", "z").error
    assert set(statuses(cli).values()) == {"pending"}
    assert cli.ok("pause", "a", "b") == "pause requested for 2 runs\n"
    assert statuses(cli) == {"a": "paused", "b": "paused", "c": "pending"}
    lines = [json.loads(line) for line in cli.ok("resume", "a", "b", "--json").splitlines()]
    assert lines == [{"run": "a"}, {"run": "b"}, {"verb": "resume", "runs": 2, "problems": 0}]


def test_a_filter_is_looked_at_first_and_then_confirmed(cli: Cli) -> None:
    """Contract: a dry run counts and changes nothing; in a pipe the act itself needs --yes."""
    for name in "abc":
        cli.start("hello", "name=x", "--id", name, "--queue", "slow" if name == "c" else "default")
    looked = cli.ok("kill", "--filter", "queue=default", "--filter", "since=1h", "--dry-run")
    assert looked.splitlines()[-1] == "would kill 2 runs"
    assert {line.split("\t")[0] for line in looked.splitlines()[:-1]} == {"a", "b"}
    unsure = cli("kill", "--filter", "queue=default")
    assert (unsure.code, "2 runs" in unsure.error, "--yes" in unsure.error) == (2, True, True)
    assert set(statuses(cli).values()) == {"pending"}
    assert cli.ok("kill", "--filter", "queue=default", "--yes", "--reason", "cleared") == "killed 2 runs\n"
    assert statuses(cli) == {"a": "cancelled", "b": "cancelled", "c": "pending"}
    assert "cleared" in cli.ok("show", "a")
    counted = cli("kill", "--filter", "queue=default", "--dry-run", "--json").json
    assert counted == {"dry_run": True, "verb": "kill", "matched": 0, "sample": []}


def test_a_filter_without_a_status_means_runs_that_the_act_fits(cli: Cli) -> None:
    """Contract: retry takes failed and cancelled runs, and prints the new ids; the count goes beside them."""
    cli.start("fails", "text=boo", "--id", "bad")
    cli.start("hello", "name=x", "--id", "good")
    cli.finish("bad", "good")
    answer = cli("retry", "--filter", "since=1h", "--yes")
    [made] = answer.out.splitlines()
    assert made.startswith("bad~")
    assert answer.err == "retried 1 run\n"


def test_a_run_that_refuses_stops_no_other(cli: Cli) -> None:
    """Contract: it is named, the others are done, the exit code is 1."""
    cli.start("hello", "name=x", "--id", "ended")
    cli.finish("ended")
    cli.start("hello", "name=x", "--id", "open")
    answer = cli("cancel", "ended", "open")
    assert answer.code == 1
    assert answer.out.splitlines()[0].startswith("run ended: ")
    assert answer.out.splitlines()[-1] == "cancel requested for 1 run; 1 run refused"
    assert statuses(cli)["open"] == "cancelled"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["stauts=failed"], "Did you mean status?"),
        (["status=broken"], "broken"),
        (["since=soon"], "since"),
        (["since=2026-01-01"], "no time zone"),
        (["queue=a", "queue=b"], "given twice"),
    ],
)
def test_a_wrong_filter_is_wrong_usage(cli: Cli, words: list[str], said: str) -> None:
    cli.start("hello", "name=x")
    answer = cli("cancel", *(text for word in words for text in ("--filter", word)), "--yes")
    assert answer.code == 2
    assert said in answer.error
    assert set(statuses(cli).values()) == {"pending"}


# -- who did it --------------------------------------------------------------------------------------------------------


def test_every_act_on_a_run_says_who_did_it(cli: Cli, caplog: pytest.LogCaptureFixture) -> None:
    """Contract: `show` names the actor of each act; the audit log has a record of each; --as names somebody."""
    caplog.set_level("INFO", "holdfast.audit")
    cli.start("approval", "name=x", "--id", "r", "--as", "amy")
    cli.ok("pause", "r", "--as", "bob")
    cli.ok("resume", "r", "--as", "cleo")
    cli.until_waiting("r", "signal approved")
    cli.ok("signal", "r", "approved", "true", "--as", "dan")
    cli.finish("r")
    shown = cli.ok("show", "r")
    for text in ("started approval (by amy)", "(by bob)", "resumed (by cleo)", "signal approved received from dan"):
        assert text in shown, shown
    acts = [(record.__dict__["actor"], record.__dict__["verb"]) for record in caplog.records]
    assert acts == [("amy", "start"), ("bob", "pause"), ("cleo", "resume"), ("dan", "signal")]
    again = cli.ok("retry", "r", "--as", "eve").strip()
    assert "(by eve)" in cli.ok("show", again)
    cli.ok("kill", again, "--as", "finn")
    assert "(by finn)" in cli.ok("show", again)
    assert "control character" in cli("kill", again, "--as", "a\nb").error


def test_a_publication_says_who_published(cli: Cli) -> None:
    cli.start("payment", "--id", "r")
    cli.until_waiting("r", "topic paid")
    assert cli.ok("runs", "--topic", "paid").split("\t")[0] == "r"
    assert cli.ok("publish", "paid", '"yes"', "--as", "amy") == "r\n"
    cli.finish("r")
    assert "wait for topic paid: received" in cli.ok("show", "r")
    assert "(by amy)" in cli.ok("show", "r")
    assert cli.ok("runs", "--topic", "paid") == ""


def test_the_actor_is_the_user_and_the_host(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "amy")
    monkeypatch.setattr("platform.node", lambda: "till-3")
    cli.start("hello", "name=x", "--id", "r")
    assert "started hello (by amy@till-3)" in cli.ok("show", "r")


@pytest.mark.parametrize(
    ("words", "verb"),
    [
        (["gc"], "gc"),
        (["compact"], "compact"),
        (["migrate"], "migrate"),
        (["tokens", "add", "page", "--role", "read", "--file", "tokens.json"], "tokens add"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_acts_on_a_store_are_in_the_audit_log(
    cli: Cli, caplog: pytest.LogCaptureFixture, words: list[str], verb: str
) -> None:
    """Contract: what is about no single run has a record with who did it."""
    cli.start("hello", "name=x", "--id", "r")
    caplog.set_level("INFO", "holdfast.audit")
    cli.ok(*words, "--as", "amy")
    [record] = caplog.records
    assert (record.__dict__["actor"], record.__dict__["verb"]) == ("amy", verb)
