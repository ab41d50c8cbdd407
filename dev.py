#!/usr/bin/env python3
"""Everything a developer does here, from nothing but Python 3.11 and pip.

    python3 dev.py demo      install what is needed, see a worker killed and its run finished by another
    python3 dev.py test      install what is needed, check the code, run the whole suite
    python3 dev.py           list the commands

Only the standard library is imported. The first command installs uv into `.tools/`, makes `.venv/` and installs the
pinned packages of `constraints.txt` (hashes checked) and the project itself, editable. A stamp in `.venv/` remembers
what was installed, so the next command starts at once. Nothing is written outside ignored folders and pip's caches.

To add a command, write a function with a docstring and decorate it with `@command("name")`.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent
TOOLS = ROOT / ".tools"
VENV = ROOT / os.environ.get("HOLDFAST_VENV", ".venv")  # see `with_python`
CONSTRAINTS = ROOT / "constraints.txt"
SCRIPTS = "Scripts" if os.name == "nt" else "bin"
PYTHON = VENV / SCRIPTS / ("python.exe" if os.name == "nt" else "python")
UV_VERSION = "0.13.7"
GROUPS = ("test", "lint", "bench", "build")

Run = Callable[[list[str]], int]
COMMANDS: dict[str, Run] = {}


class SetupError(Exception):
    """The tools could not be installed; the message says what to do."""


def command(name: str) -> Callable[[Run], Run]:
    """Makes a function `python3 dev.py NAME`. It takes the remaining arguments and returns the exit code."""

    def register(function: Run) -> Run:
        COMMANDS[name] = function
        return function

    return register


# ---------------------------------------------------------------------------------------------------- running programs


def say(text: str) -> None:
    print(text, flush=True)


def execute(argv: Sequence[str | Path], env: Mapping[str, str] | None = None) -> int:
    """Runs a program in the project's folder with its output shown; gives its exit code."""
    environment = {**environment_of_programs(), **(env or {})}
    return subprocess.run([str(word) for word in argv], cwd=ROOT, env=environment, check=False).returncode


def environment_of_programs() -> dict[str, str]:
    """Ours, with .venv first on PATH. Bytecode is kept: the tests start hundreds of processes."""
    path = os.pathsep.join([str(PYTHON.parent), os.environ.get("PATH", os.defpath)])
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**ours, "PATH": path, "VIRTUAL_ENV": str(VENV)}


# ---------------------------------------------------------------------------------------------------------- installing


def uv() -> Path:
    """The pinned uv, installed into .tools/ by pip: works under PEP 668 and without python3-venv."""
    program = TOOLS / SCRIPTS / ("uv.exe" if os.name == "nt" else "uv")
    if (TOOLS / f"uv-{UV_VERSION}.dist-info").is_dir() and program.exists():
        return program
    say(f"== installing uv {UV_VERSION} into .tools/")
    if TOOLS.exists():
        shutil.rmtree(TOOLS)  # pip --target does not replace another version
    options = ["--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]
    pip: list[str | Path] = [sys.executable, "-m", "pip", "install", *options, "--target", TOOLS]
    if execute([*pip, f"uv=={UV_VERSION}"]) != 0 or not program.exists():
        raise SetupError("pip could not install uv. Is pip there (`python3 -m pip --version`), and is PyPI in reach?")
    return program


def install(*groups: str) -> None:
    """Makes .venv hold the project and these groups at the pinned versions; instant when it already does.

    pytest is always among it: the project that `holdfast init` makes after the demo has tests.
    """
    pins = [ROOT / "pyproject.toml", CONSTRAINTS]
    stamp = VENV / f".installed-{'-'.join(groups)}"
    wanted = hashlib.sha256(b"\0".join(path.read_bytes() for path in pins) + sys.version.encode()).hexdigest()
    stamps = [stamp] if groups else VENV.glob(".installed-*")  # every one of them includes the project itself
    if PYTHON.exists() and any(one.exists() and one.read_text() == wanted for one in stamps):
        return
    program = uv()
    started = time.monotonic()
    if not PYTHON.exists():
        say("== making .venv")
        if execute([program, "venv", "--quiet", "--allow-existing", "--python", sys.executable, VENV]) != 0:
            raise SetupError(f"uv could not make {VENV.name}/. Delete the folder and try again.")
    what = f"the groups {', '.join(groups)}" if groups else "what Holdfast needs"
    say(f"== installing {what} at the versions of {CONSTRAINTS.name}")
    wants = [word for group in ("build", *groups) for word in ("--group", group)]
    pinned: list[str | Path] = ["--constraints", CONSTRAINTS, "--build-constraints", CONSTRAINTS]
    if execute([program, "pip", "install", "--python", PYTHON, *pinned, *wants, "--editable", f"{ROOT}[testing]"]) != 0:
        raise SetupError("The packages could not be installed; uv's message is above.")
    stamp.write_text(wanted)
    say(f"== installed after {time.monotonic() - started:.1f} s")


def tool(name: str) -> Path:
    return VENV / SCRIPTS / name


# ------------------------------------------------------------------------------------------------------------ commands


@command("demo")
def demo(arguments: list[str]) -> int:
    """Install, then see a worker killed and its run finished by another. `demo --fast --seed N`: quicker, same kill."""
    install()
    # Takes our place instead of running below us: subprocess.run gives a child a quarter of a second after Ctrl-C.
    os.chdir(ROOT)
    os.execve(PYTHON, [str(PYTHON), "-m", "holdfast", "demo", *arguments], environment_of_programs())  # noqa: S606


@command("test")
def test(arguments: list[str]) -> int:
    """Install, then linters, suite and lab side by side. `--quick`, `--changed [REV]`: less. `-- ARGS`: only pytest.
    `--python 3.13`: under that version."""
    if "--python" in arguments:
        place = arguments.index("--python")
        if len(arguments) < place + 2:
            return usage("--python needs a version such as 3.13")
        return with_python(arguments[place + 1], ["test", *arguments[:place], *arguments[place + 2 :]])
    return checked("test", arguments)


def with_python(version: str, arguments: Sequence[str]) -> int:
    """The same command under another Python, in a virtual environment of its own (`.venv-3.13`)."""
    python = find_python(version)
    say(f"== Python {version}: {python}, in .venv-{version}/")
    return execute([python, ROOT / "dev.py", *arguments], {"HOLDFAST_VENV": f".venv-{version}"})


def find_python(version: str) -> Path:
    """An installed interpreter of that version: on PATH, or one of pyenv."""
    if not re.fullmatch(r"3\.\d+", version):
        raise SetupError(f"--python {version}: give a version such as 3.13")
    on_path = [Path(folder) / f"python{version}" for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for program in [*on_path, *sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True)]:
        if program.exists():  # one of pyenv's shims exists, and fails unless that version is chosen
            ask = "import sys; print('%d.%d' % sys.version_info[:2])"
            answer = subprocess.run([program, "-c", ask], capture_output=True, text=True, check=False)
            if answer.stdout.strip() == version:
                return program
    raise SetupError(f"Python {version} is not installed: there is none on PATH, nor in {pyenv}. Install it first.")


@command("lint")
def lint(arguments: list[str]) -> int:
    """Ruff, mypy, pyright, the import contracts, the dependency check. `lint --fix`: ruff fixes what it can first."""
    install("test", "lint")
    if "--fix" in arguments:
        execute([tool("ruff"), "check", "--fix", "--quiet", "."])
        execute([tool("ruff"), "format", "--quiet", "."])
    return checked("lint", [word for word in arguments if word != "--fix"])


@command("cover")
def cover(arguments: list[str]) -> int:
    """Run the suite under coverage, processes included, and show the lines that no test reached."""
    return checked("cover", arguments)


def checked(name: str, arguments: Sequence[str]) -> int:
    """Installs what the tests need, and hands over to `tests/command`."""
    install("test", "lint")
    return execute([PYTHON, "-m", "tests.command", name, *arguments])


@command("docs")
def docs(arguments: list[str]) -> int:
    """Generate the pages that are made from code: the reference, the statuses, the table of promises."""
    if arguments:
        return usage(f"docs takes no arguments, got {' '.join(arguments)}")
    install("test", "lint")
    made_by_tests = ["tests/docs/test_specification.py", "tests/architecture/test_diagrams.py"]
    return execute([PYTHON, "-m", "tests.docs.reference"]) or execute(
        [PYTHON, "-m", "pytest", "-q", *made_by_tests], {"HOLDFAST_UPDATE_SNAPSHOTS": "1"}
    )


@command("ui")
def ui(arguments: list[str]) -> int:
    """Check and build the page of ui/ into src/holdfast/web/static, with node from a wheel. The result is committed."""
    if arguments:
        return usage(f"ui takes no arguments, got {' '.join(arguments)}")
    install("test", "lint")
    return execute([PYTHON, "-m", "tests.page.bundle"])


@command("bench")
def bench(arguments: list[str]) -> int:
    """Run the benchmarks; arguments go to `python -m benchmarks`."""
    install("test", "bench")
    return execute([PYTHON, "-m", "benchmarks", *arguments])


@command("lab")
def lab(arguments: list[str]) -> int:
    """Hit Holdfast as hard as possible and count: simulation, disks, chaos. `lab --help` lists the options."""
    install("test", "lint")
    return execute([PYTHON, "-m", "tests.lab", *arguments])


@command("mutate")
def mutate(arguments: list[str]) -> int:
    """Change core/ and turn/ in small ways and see whether tests notice: `mutate [core|turn] [HOW MANY [SEED]]`."""
    part, numbers = (arguments[0], arguments[1:]) if arguments[:1] in (["core"], ["turn"]) else ("", arguments)
    if len(numbers) > 2 or not all(word.isdigit() for word in numbers):
        return usage("mutate takes core or turn, and up to two numbers: how many mutants, and the seed of the sample")
    count, seed = (int(word) for word in [*numbers, *("200", "0")[len(numbers) :]])
    install("test", "lint")
    shutil.rmtree(ROOT / "mutants", ignore_errors=True)
    say("== making the mutants, and noting which test reaches which")
    # mutmut has no verb for this alone: asked for a mutant that cannot be, it does both and then gives up.
    made = subprocess.run([tool("mutmut"), "run", "none"], cwd=ROOT, capture_output=True, text=True, check=False)
    metas = [json.loads(meta.read_text()) for meta in sorted((ROOT / "mutants").rglob("*.meta"))]
    mutants = sorted(name for meta in metas for name in meta["exit_code_by_key"] if f"holdfast.{part}" in name)
    if not mutants or "nothing matches" not in made.stderr:
        say(f"{made.stdout}{made.stderr}\ndev.py: no mutants could be made, or the tests fail without them")
        return 1
    sample = sorted(random.Random(seed).sample(mutants, min(count, len(mutants))))
    say(f"== trying {len(sample)} of {len(mutants)} mutants, seed {seed}")
    if code := execute([tool("mutmut"), "run", *sample]):
        return code
    return report_mutants(sample)


def report_mutants(sample: Sequence[str]) -> int:
    """Prints the outcome of each and the share that was noticed. A test that hangs or crashes has noticed too."""
    listing: list[str | Path] = [tool("mutmut"), "results", "--all", "true"]
    lines = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    fates = {name: fate for name, _, fate in (line.strip().rpartition(": ") for line in lines)}
    alive = [
        name for name in sample if fates.get(name) not in {"killed", "timeout", "segfault", "caught by type check"}
    ]
    for name in alive:
        say(f"   {fates.get(name, 'unknown'):12} {name}")
    killed = len(sample) - len(alive)
    say(f"== {killed} of {len(sample)} mutants killed: {killed / len(sample):.1%}. Look at one with `mutmut show NAME`")
    return 0


@command("lock")
def lock(arguments: list[str]) -> int:
    """Renew constraints.txt: the newest versions that fit pyproject.toml, for every group and extra, with hashes."""
    if arguments:
        return usage("lock takes no arguments")
    groups = [word for group in GROUPS for word in ("--group", group)]
    where = ["--universal", "--python-version", "3.11", "--all-extras", *groups]
    form = ["--generate-hashes", "--quiet", "--custom-compile-command", "python3 dev.py lock", "--output-file"]
    code = execute([uv(), "pip", "compile", "--upgrade", *where, *form, CONSTRAINTS.name, "pyproject.toml"])
    say(f"== {CONSTRAINTS.name}: {'renewed' if code == 0 else 'unchanged, see above'}")
    return code


# ---------------------------------------------------------------------------------------------------------------- help


def usage(complaint: str = "") -> int:
    say("usage: python3 dev.py COMMAND [ARGUMENTS]\n")
    for name, function in COMMANDS.items():
        say(f"  {name:8} {function.__doc__}")
    say(
        f"\ndev.py: {complaint}"
        if complaint
        else "\nNew here? `python3 dev.py demo` sets up what it needs and shows what Holdfast does."
    )
    return 2


def main(arguments: list[str]) -> int:
    if sys.version_info < (3, 11):
        say(f"dev.py: Python 3.11 or newer is needed; this is {sys.version.split()[0]} ({sys.executable}).")
        return 2
    if not arguments:
        return usage("which command?")
    if arguments[0] in {"-h", "--help", "help"}:
        usage()
        return 0
    if arguments[0] not in COMMANDS:
        return usage(f"no command {arguments[0]!r}; the commands are listed above")
    try:
        return COMMANDS[arguments[0]](arguments[1:])
    except SetupError as error:
        say(f"dev.py: {error}")
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
