"""The command line as its users meet it: real processes, on a store without a worker unless a test says so."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.integration.cli_app_processes import PATIENCE, Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def on_terminal(place: Place, *arguments: str, columns: int = 80) -> list[str]:
    """The lines a person sees, without their colours."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {**place.env, "TERM": "xterm", "COLUMNS": str(columns)}
    process = subprocess.Popen(
        place.argv(*arguments), cwd=place.folder, env=env, stdin=follower, stdout=follower, stderr=follower
    )
    os.close(follower)
    shown = b""
    try:
        while part := os.read(leader, 65536):
            shown += part
    except OSError:  # how Linux says that the other side has closed
        pass
    finally:
        os.close(leader)
        assert process.wait(PATIENCE) == 0, shown.decode()
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).replace("\r", "").splitlines()


# -- help --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["", "worker", "start", "runs", "show", "version"])
def test_help_is_light(place: Place, command: str) -> None:
    """Contract: no store, terminal library or optional package is loaded to show how a command is used."""
    code = (
        f"import sys; sys.argv = ['holdfast', *{command.split()!r}, '--help']\nfrom holdfast.cli import main\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], env=place.env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert answer.returncode == 0
    assert "Usage: holdfast" in answer.stdout
    assert not {"apsw", "rich", "psycopg", "pydantic"} & set(answer.stderr.split())


def test_the_list_of_commands_loads_little_beside_click(place: Place) -> None:
    """Contract: `holdfast --help` takes at most 150 ms of processor. Modules are counted, since machines differ."""
    count = "import sys; print(len(sys.modules), *sys.modules, file=sys.stderr)"
    asked = (
        "sys.argv = ['holdfast', '--help']\nfrom holdfast.cli import main\ntry:\n    main()\nexcept SystemExit:\n    "
    )
    clicks = "import click, click._textwrap, shutil"  # what a program of click with a help page loads
    loaded: list[set[str]] = []
    for code in (f"{clicks}; {count}", f"import sys; {asked}{count}"):
        answer = subprocess.run(
            [sys.executable, "-c", code], env=place.env, capture_output=True, text=True, timeout=PATIENCE, check=True
        )
        loaded.append(set(answer.stderr.split()))
    assert len(loaded[1]) - len(loaded[0]) <= 8, sorted(loaded[1] - loaded[0])


def test_version(place: Place) -> None:
    """Contract: the same word from the command, the option, the script and JSON."""
    word = place.ok("version").split()[1]
    assert place.ok("--version").split()[1] == word
    assert json.loads(place.ok("version", "--json"))["holdfast"] == word
    script = Path(sys.executable).with_name("holdfast")
    if script.exists():
        assert word in subprocess.check_output([script, "version"], env=place.env, text=True)


# -- start, runs, show without a worker --------------------------------------------------------------------------------


def test_a_run_is_started_listed_and_shown_without_a_worker(place: Place) -> None:
    """Contract: asking needs no worker."""
    assert place.start("hello", "name=world", "--id", "first", "--attribute", "tier=gold") == "first"
    assert place.start("hello", "name=world", "--id", "first") == "first"
    [line] = place.ok("runs").splitlines()
    assert line.split("\t")[:3] == ["first", "pending", "hello"]
    assert line.split("\t")[-1] == "waiting for a worker"
    shown = place.ok("show", "first")
    assert "run first pending: waiting for a worker" in shown
    assert 'input       {"name":"world"}' in shown
    assert "attributes  tier=gold" in shown
    assert json.loads(place.ok("show", "first", "--json"))["input"] == {"name": "world"}


@pytest.mark.parametrize(
    ("arguments", "stored"),
    [
        (['order={"id": "1", "cents": 2}'], {"day": "2026-01-01", "factor": "1", "note": ""}),
        (['order={"id": "1", "cents": 2}', "day=2026-02-03", "factor=1.50", "note=12"],
         {"day": "2026-02-03", "factor": "1.50", "note": "12"}),
        (["--input", '{"order": {"id": "1", "cents": 2}, "note": "n"}'],
         {"day": "2026-01-01", "factor": "1", "note": "n"}),
        (["--input", '[{"id": "1", "cents": 2}, "2026-02-03"]'], {"day": "2026-02-03", "factor": "1", "note": ""}),
        (["--input", "@order.json"], {"day": "2026-01-01", "factor": "1", "note": "file"}),
        (["--input", "-"], {"day": "2026-01-01", "factor": "1", "note": "stdin"}),
    ],
    ids=["word", "words", "object", "array", "file", "stdin"],
)  # fmt: skip
def test_arguments_are_read_by_the_signature(place: Place, arguments: list[str], stored: dict[str, str]) -> None:
    """Contract: words, an object, an array, a file and standard input make the same call."""
    (place.folder / "order.json").write_text('{"order": {"id": "1", "cents": 2}, "note": "file"}')
    stdin = '{"order": {"id": "1", "cents": 2}, "note": "stdin"}'
    answer = place.run("start", "cli_app:app", "priced", *arguments, "--id", "r", stdin=stdin)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(place.ok("show", "r", "--json"))["input"] == {"order": {"id": "1", "cents": 2}, **stored}


ORDER = 'order={"id": "1", "cents": 2}'
START = ("start", "cli_app:app")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["strat"], 2, ["no command 'strat'", "Did you mean start?"]),
        (["runs", "--lmit", "3"], 2, ["--lmit"]),
        ([*START, "helo"], 1, ["no workflow 'helo'", "Did you mean hello?"]),
        ([*START, "hello", "--version", "9"], 1, ["no version '9'"]),
        ([*START, "hello"], 2, ["workflow hello", "missing a required argument: 'name'", "(name: str)"]),
        ([*START, "hello", "nam=x"], 2, ["no argument 'nam'", "Did you mean name?"]),
        ([*START, "hello", "name"], 2, ["'name' is not of the form name=value"]),
        ([*START, "hello", "name=a", "name=b"], 2, ["'name' is given twice"]),
        ([*START, "priced", 'order={"id": "1", "cents": "x"}'], 2, ["order.cents", "`int`"]),
        ([*START, "priced", "--input", '{"order": {"id": 1, "cents": 2}}'], 2, ["order.id", "`str`"]),
        ([*START, "priced", 'order={"id": "1"'], 2, ["order is not JSON", "truncated", "(order: Order"]),
        ([*START, "priced", "--input", "[1"], 2, ["--input is not JSON"]),
        ([*START, "priced", "--input", "3"], 2, ["an object", "an array"]),
        ([*START, "hello", "--input", '["a", "b"]'], 2, ["takes 1 argument"]),
        ([*START, "hello", "--input", "@nowhere.json"], 2, ["nowhere.json", "No such file"]),
        ([*START, "hello", "name=x", "--input", "{}"], 2, ["not both"]),
        ([*START, "priced", ORDER, "day=soon"], 2, ["workflow priced: day: ", "date"]),
        ([*START, "hello", "name=x", "--delay", "soon"], 2, ["--delay", "not a duration"]),
        ([*START, "hello", "name=x", "--delay", "3"], 2, ["--delay", "no unit", "3s"]),
        ([*START, "hello", "name=x", "--deadline", "2026-01-01"], 2, ["no time zone"]),
        ([*START, "hello", "name=x", "--id", "a\nb"], 1, ["run id", "control character"]),
        ([*START, "hello", "name=x", "--id", ""], 1, ["run id", "empty"]),
        ([*START, "hello", "name=x", "--timeout", "3s"], 2, ["--timeout is for --wait"]),
        ([*START, "hello", "name=x", "--priority", "high"], 2, ["--priority", "high"]),
        (["worker", "cli_app"], 2, ["does not name an app", "shop:app"]),
        (["worker", "cli_app.py:app"], 2, ["Write cli_app:app"]),
        (["worker", "cli_ap:app"], 1, ["no module 'cli_ap'"]),
        (["worker", "cli_app:ap"], 1, ["has no 'ap'", "cli_app:app"]),
        (["worker", "cli_app:not_an_app"], 1, ["is not an App but a Workflow", "cli_app:app"]),
        (["worker", "cli_app:app", "--concurrency", "0"], 2, ["--concurrency"]),
        (["worker", "cli_app:app", "--ttl", "1s"], 1, ["lease", "poll"]),
        (["runs", "--url", "sqlite:///nowhere.db"], 1, ["no store", "nowhere.db"]),
        (["runs", "--url", "memory://"], 1, ["memory of one process"]),
        (["runs", "--url", "mysql://me:secret@host/x"], 1, ["no store for 'mysql://'"]),
        (["runs", "--url", "postgresql://me:secret@127.0.0.1:1/x"], 1, ["no connection to the store", "127.0.0.1"]),
        (["runs", "--app", "cli_app:app", "--url", "memory://"], 2, ["not both"]),
        (["runs", "--status", "done"], 2, ["unknown status 'done'", "completed"]),
        (["show", "x", "--url", "sqlite:///nowhere.db"], 1, ["no store"]),
    ],
    ids=lambda value: "_".join(value)[:60] if isinstance(value, list) and value[0].islower() else "",
)  # fmt: skip
def test_bad_input_is_a_sentence_and_leaves_nothing(
    place: Place, arguments: list[str], code: int, words: list[str]
) -> None:
    """Contract: exit code 1 or 2, one line that says what is wrong, no traceback, nothing written."""
    answer = place.run(*arguments)
    assert answer.returncode == code, answer.stderr
    assert not answer.stdout
    *usage, line = answer.stderr.splitlines()
    assert line.startswith("error: ")
    assert all(text.startswith(("Usage: ", "  ")) for text in usage), answer.stderr
    assert all(word in line for word in words), line
    assert "secret" not in answer.stderr
    if (place.folder / "store.db").exists():
        assert not place.ok("runs")


def test_an_unknown_run_gets_a_hint(place: Place) -> None:
    """Contract: did you mean, among recent ids."""
    place.start("hello", "name=x", "--id", "order-42")
    answer = place.run("show", "order-24")
    assert answer.returncode == 1
    assert "no run 'order-24'" in answer.stderr
    assert "Did you mean order-42?" in answer.stderr


# -- loading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import nowhere_to_be_found\n", ["broken.py:1", "nowhere_to_be_found"]),
        ("x = 1\nraise ValueError('on line two')\n", ["broken.py:2", "ValueError: on line two"]),
        ("def broken(:\n", ["broken.py:1", "invalid syntax"]),
        ("import sys\nsys.exit(3)\n", ["broken.py:2", "ends the process"]),
        ("from holdfast import App\napp = App(workflows=[])\n", ["serves no workflow"]),
        ("from holdfast import App\n\napp = App(workflows=[3])\n", ["broken.py:3"]),
        ("app = None\n", ["no App"]),
    ],
    ids=["missing import", "error", "syntax", "exit", "empty", "definition", "none"],
)  # fmt: skip
def test_a_module_that_cannot_be_used_is_named_by_file_and_line(place: Place, source: str, words: list[str]) -> None:
    """Contract: the current folder is searched; what is wrong there is a sentence with the place."""
    (place.folder / "broken.py").write_text(source)
    answer = place.run("worker", "broken:app")
    assert answer.returncode == 1
    [line] = answer.stderr.splitlines()
    assert all(word in line for word in words), line


def test_a_file_here_does_not_replace_a_module_of_python(place: Place) -> None:
    """Contract: a `json.py` lying around is not imported by the installed command; an app in `code.py` gets a hint."""
    (place.folder / "json.py").write_text("raise SystemError('shadowed')")
    (place.folder / "code.py").write_text("from holdfast import App\napp = App()")
    (place.folder / "mine.py").write_text("from cli_app import app")
    call = "import sys; del sys.path[0]; from holdfast.cli import main; main()"
    argv = [sys.executable, "-c", call]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*argv, *arguments], cwd=place.folder, env=place.env, capture_output=True, text=True, check=False
        )

    assert run("start", "mine:app", "hello", "name=x", "--id", "r").stdout == "r\n"
    assert "code.py here too" in run("start", "code:app", "hello").stderr


def test_a_sync_app_is_an_app(place: Place) -> None:
    """Contract: `holdfast.sync.App` is served like the one inside it."""
    (place.folder / "report.py").write_text(
        "from holdfast.sync import App, workflow\n"
        "@workflow\ndef nightly(pages: int = 3) -> int: return pages\n"
        "app = App(workflows=[nightly])\n"
    )
    with place.worker("--id", "w", app="report:app"):
        assert place.ok("start", "report:app", "nightly", "pages=4", "--wait", "--timeout", "30s") == "4\n"


# -- waiting -----------------------------------------------------------------------------------------------------------


def test_waiting_gives_the_result_or_the_reason(place: Place) -> None:
    """Contract: the result as JSON and 0; a failure, declared or not, in a sentence and 1."""
    with place.worker():
        assert json.loads(place.ok(*START, "hello", "name=x", "--wait")) == "hello x"
        whole = json.loads(place.ok(*START, "hello", "name=x", "--id", "r", "--wait", "--json"))
        assert whole == {"run": "r", "outcome": whole["outcome"], "status": "completed", "result": "hello x"}
        failed = place.run(*START, "fails", "text=boo\nhoo", "--id", "bad", "--wait")
        assert failed.returncode == 1
        assert len(failed.stderr.splitlines()) == 1
        assert "ValueError: boo\\nhoo" in failed.stderr
        refused = place.run(*START, "refuses", "--wait")
        assert refused.returncode == 1
        assert "failed: Refused: not today" in refused.stderr
        assert json.loads(place.run(*START, "refuses", "--wait", "--json").stdout)["status"] == "failed"


def test_waiting_without_a_worker_says_so_and_can_be_left(place: Place) -> None:
    """Contract: a hint on standard error; a time-out is an error; Ctrl-C ends quietly with 130, and the run goes on."""
    late = place.run(*START, "hello", "name=x", "--wait", "--timeout", "10ms")
    assert late.returncode == 1
    assert "has not ended within 10 ms" in late.stderr
    with place.process(*START, "hello", "name=x", "--id", "r", "--wait") as process:
        process.line("no worker serves it", "holdfast worker cli_app:app")
        process.send(signal.SIGINT)
        assert process.code() == 130
        assert len(process.lines) == 1
    assert place.ok("runs", "--status", "pending").splitlines()[0].startswith("r\t")


# -- runs --------------------------------------------------------------------------------------------------------------


def test_pages_make_the_whole(place: Place) -> None:
    """Contract: following the cursor meets every run once, newest first."""
    ids = [place.start("hello", f"name={number}", "--id", f"r{number}") for number in range(5)]
    seen: list[str] = []
    cursor: list[str] = []
    while True:
        *rows, last = [json.loads(line) for line in place.ok("runs", "--json", "--limit", "2", *cursor).splitlines()]
        seen += [row["id"] for row in rows]
        if not last["next"]:
            break
        cursor = ["--after", last["next"]]
    assert seen == ids[::-1]
    plain = place.run("runs", "--limit", "2")
    assert len(plain.stdout.splitlines()) == 2
    assert plain.stderr.startswith("more: --after ")
    wrong = place.run("runs", "--after", "garbage")
    assert wrong.returncode == 1
    assert "error: " in wrong.stderr


def test_filters(place: Place) -> None:
    """Contract: each filter narrows the list."""
    place.start("hello", "name=a", "--id", "a", "--attribute", "tier=gold", "--attribute", "x=1")
    place.start("approval", "name=b", "--id", "b", "--queue", "slow", "--attribute", "tier=gold")
    for arguments, found in [
        (["--workflow", "hello"], ["a"]),
        (["--queue", "slow"], ["b"]),
        (["--attribute", "tier=gold"], ["b", "a"]),
        (["--attribute", "tier=gold", "--attribute", "x=1"], ["a"]),
        (["--status", "pending", "--status", "failed"], ["b", "a"]),
        (["--status", "completed"], []),
        (["--limit", "1"], ["b"]),
    ]:
        answer = place.run("runs", *arguments)
        assert [line.split("\t")[0] for line in answer.stdout.splitlines()] == found, arguments


def test_a_reader_that_goes_away_is_no_error(place: Place) -> None:
    """Contract: `holdfast runs | head -1` ends quietly."""
    place.start("hello", "name=x")
    for arguments in (["runs"], ["runs", "--json"], ["--help"], ["show", "--help"]):
        process = subprocess.Popen(
            place.argv(*arguments), cwd=place.folder, env=place.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == b""
        process.stderr.close()


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize(
    ("words", "code"), [(["runs"], 0), (["config", "--json"], 0), (["--help"], 0), (["show", "x"], 1)]
)
def test_a_stream_that_was_closed_from_the_start_is_no_error(
    place: Place, closed: str, words: list[str], code: int
) -> None:
    """Promise: `holdfast runs >&-` does what it does and nobody sees it: the same exit code, no traceback."""
    place.ok(*START, "hello", "name=x")
    answer = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *place.argv(*words)], cwd=place.folder, env=place.env,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert answer.returncode == code, answer.stderr
    assert "Traceback" not in answer.stderr
    assert "unexpected error" not in answer.stderr


def test_an_interrupt_before_the_command_has_begun(place: Place) -> None:
    """Promise: Ctrl-C while the command itself is still being imported ends with 130 and not a word."""
    code = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'click': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from holdfast.cli import main\n"
        "main(['runs'])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=place.folder, env=place.env, capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (answer.returncode, answer.stdout, answer.stderr) == (130, "", "")


def test_debug_shows_where(place: Place) -> None:
    """Contract: `--debug`, before or after the command, adds the traceback."""
    for arguments in (["--debug", "runs"], ["runs", "--debug"]):
        answer = place.run(*arguments)
        assert answer.returncode == 1
        assert "Traceback (most recent call last):" in answer.stderr
        assert answer.stderr.splitlines()[-1].startswith("error: there is no store")
    assert "Traceback" not in place.run("runs").stderr


def test_data_cannot_speak_to_the_terminal(place: Place) -> None:
    """Contract: control sequences in inputs and attributes are shown as escapes, in a pipe and on a terminal."""
    place.start("hello", "--input", '{"name": "\\u001b[2Jx\\n\\u202ey"}', "--id", "r", "--attribute", "a=\x1b[31m\nb")
    for lines in (place.ok("show", "r").splitlines(), on_terminal(place, "show", "r")):
        assert not any(re.search("[\x00-\x1f\x7f-\x9f\u202e]", line) for line in lines), lines
        assert any("a=\\x1b[31m\\nb" in line for line in lines)


# -- a terminal --------------------------------------------------------------------------------------------------------


def test_a_story_is_told(place: Place) -> None:
    """Contract: `show` gives the sentence, the facts, the timeline, the traceback and the children."""
    with place.worker("--id", "w"):
        place.run(*START, "fails", "text=boo", "--id", "bad", "--wait")
        place.ok(*START, "parent", "name=kid", "--id", "par", "--wait")
    bad = place.ok("show", "bad")
    assert re.search(r"^run bad failed after .*ValueError: boo$", bad, re.MULTILINE)
    assert re.search(r"^ *\+0\.\d{3} s  claimed by w$", bad, re.MULTILINE)
    assert re.search(r"step breaks, attempt 2 of 2: failed .*ValueError: boo", bad)
    assert "  Traceback (most recent call last):\n" in bad
    assert "cli_app.py" in bad
    par = place.ok("show", "par")
    assert 'result    "hello kid"' in par
    assert "child hello (par/hello): completed" in par
    assert re.search(r"^children\npar/hello\tcompleted\thello\t", par, re.MULTILINE)
    whole = json.loads(place.ok("show", "bad", "--json"))
    assert whole["failure"]["message"].endswith("ValueError: boo")
    assert whole["timeline"][0]["text"].startswith("started fails (by ")
    assert whole["events"][-1]["type"] == "failed"
    assert [child["id"] for child in json.loads(place.ok("show", "par", "--json"))["children"]] == ["par/hello"]


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_a_table_fits_the_terminal(place: Place, columns: int) -> None:
    """Contract: no line is wider than the terminal, ids are whole, whatever the width."""
    ids = [
        place.start("hello", "name=" + "long " * 40, "--delay", "3h"),
        place.start("approval", "name=x", "--id", "r"),
    ]
    listed = on_terminal(place, "runs", columns=columns)
    shown = on_terminal(place, "show", ids[0], columns=columns)
    assert all(len(line) <= columns for line in listed + shown), listed + shown
    assert all(any(one in line for line in listed) for one in ids)
    assert any("RUN" in line for line in listed) == (columns > 40)
    assert "starts in" in " ".join(listed)


def test_a_terminal_without_colour_or_utf8(place: Place) -> None:
    """Contract: NO_COLOR is respected, and characters that cannot be written become escapes."""
    place.start("hello", "name=é→", "--id", "r")
    answer = place.run("show", "r", PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert answer.returncode == 0
    assert "\\xe9\\u2192" in answer.stdout
    whole = place.run("show", "r", "--json", PYTHONIOENCODING="ascii")
    assert json.loads(whole.stdout)["input"] == {"name": "é→"}
