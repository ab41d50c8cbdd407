"""`holdfast update`: what it says when nobody answers, and of bad input."""

from __future__ import annotations

from tests.unit.cli.conftest import Cli


def test_a_question_that_nobody_answers(cli: Cli) -> None:
    """Contract: a timeout names the id to ask again with; the end of the run tells that there is no answer."""
    run = cli.start("approval", "name=ann")
    late = cli("update", run, "reassign", '{"to": "bob"}', "--id", "q1", "--timeout", "10ms")
    assert late.code == 1
    assert "ask again with id='q1'" in late.error
    different = cli("update", run, "reassign", "1", "--id", "q1", "--timeout", "10ms")
    assert (different.code, "was used for a different question" in different.error) == (1, True)
    cli("kill", run)
    told = cli("update", run, "reassign", '{"to": "bob"}', "--id", "q1")
    assert (told.code, "did not answer update reassign" in told.error) == (1, True)
    fresh = cli("update", run, "reassign", "1")
    assert (fresh.code, "has cancelled" in fresh.error) == (1, True)


def test_a_question_that_cannot_be_asked(cli: Cli) -> None:
    """Contract: a value that is not JSON, a name that cannot be one, and a run that is not there."""
    run = cli.start("approval", "name=ann")
    for words in ((run, "reassign", "{"), (run, "", "1"), (run, "reassign", "1", "--timeout", "soon")):
        assert cli("update", *words).code == 2
    assert cli("update", "nowhere", "reassign", "1").code == 1
