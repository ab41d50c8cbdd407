"""Calls that are forbidden in workflow bodies, by full name, and what to use instead."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.lint.lint_finding import Rule


class Banned(NamedTuple):
    """Why a call is refused."""

    rule: Rule
    instead: str


CLOCK = Banned("clock", "use holdfast.now(), which replays")
SLEEP = Banned("clock", "use `await holdfast.sleep(…)`: the run is parked, and nothing blocks")
CHANCE = Banned("chance", "use holdfast.rng() or holdfast.uuid4(), which replay")
WORLD = Banned("environment", "read it in a step, or pass it as an argument when the run is started")
IO = Banned("io", "do it in a step, whose outcome is recorded")
THREADS = Banned("threads", "make it a step; `def` steps run in threads automatically")
IDENTITY = Banned("identity", "compare by a value of yours: addresses and hashes differ in every process")

FUNCTIONS: dict[str, Banned] = {
    "time.sleep": SLEEP,
    "datetime.datetime.now": CLOCK,
    "datetime.datetime.utcnow": CLOCK,
    "datetime.datetime.today": CLOCK,
    "datetime.date.today": CLOCK,
    "uuid.uuid1": CHANCE,
    "uuid.uuid4": CHANCE,
    "uuid.uuid6": CHANCE,
    "uuid.uuid7": CHANCE,
    "uuid.getnode": WORLD,
    "os.urandom": CHANCE,
    "os.getrandom": CHANCE,
    "os.getenv": WORLD,
    "os.getpid": WORLD,
    "os.getppid": WORLD,
    "os.getcwd": WORLD,
    "os.getlogin": WORLD,
    "os.cpu_count": WORLD,
    "os.uname": WORLD,
    "os.times": CLOCK,
    "socket.gethostname": WORLD,
    "socket.getfqdn": WORLD,
    "getpass.getuser": WORLD,
    "asyncio.open_connection": IO,
    "asyncio.start_server": IO,
    "asyncio.create_subprocess_exec": IO,
    "asyncio.create_subprocess_shell": IO,
    "builtins.open": IO,
    "io.open": IO,
    "builtins.input": IO,
    "builtins.id": IDENTITY,
    "builtins.hash": IDENTITY,
    "multiprocessing.cpu_count": WORLD,
}
"""Single functions."""

PREFIXES: tuple[tuple[str, Banned], ...] = (
    ("time.", CLOCK),
    ("random.", CHANCE),
    ("secrets.", CHANCE),
    ("numpy.random.", CHANCE),
    ("faker.", CHANCE),
    ("platform.", WORLD),
    ("locale.", WORLD),
    ("threading.", THREADS),
    ("concurrent.futures.", THREADS),
    ("multiprocessing.", THREADS),
    *(
        (f"{module}.", IO)
        for module in (
            *("socket", "ssl", "http.client", "urllib.request", "ftplib", "smtplib", "imaplib", "poplib", "subprocess"),
            *("shutil", "tempfile", "glob", "sqlite3", "dbm", "shelve", "apsw", "psycopg", "psycopg2", "asyncpg"),
            *("aiosqlite", "pymongo", "redis", "sqlalchemy", "requests", "httpx", "aiohttp", "urllib3", "websockets"),
            *("boto3", "botocore", "grpc", "kafka", "pika", "openai", "anthropic", "paramiko", "asyncssh", "aiofiles"),
        )
    ),
    *(
        (f"os.{name}", IO)
        for name in (
            *("listdir", "scandir", "walk", "stat", "mkdir", "makedirs", "remove", "unlink", "rename", "replace"),
            *("rmdir", "open", "read", "write", "system", "popen", "spawn", "exec", "fork", "kill", "chmod", "access"),
            *("path.exists", "path.isfile", "path.isdir", "path.getsize", "path.getmtime"),
        )
    ),
)
"""Whole modules, and families of functions."""

HARMLESS = frozenset(
    {
        *("time.strftime", "time.strptime", "time.struct_time", "time.gmtime", "time.mktime"),
        *("threading.get_ident", "threading.current_thread", "threading.local"),
        *("subprocess.CalledProcessError", "subprocess.TimeoutExpired", "concurrent.futures.CancelledError"),
        *("socket.inet_aton", "socket.htons", "shutil.get_terminal_size", "http.client.responses"),
    }
)
"""Members of those modules that only compute."""

VALUES: dict[str, Banned] = {"os.environ": WORLD, "os.environb": WORLD, "sys.argv": WORLD, "sys.stdin": IO}
"""Attributes that must not even be read."""

METHODS: dict[str, Banned] = {
    f"pathlib.Path.{name}": IO
    for name in (
        *("read_text", "read_bytes", "write_text", "write_bytes", "open", "exists", "is_file", "is_dir", "stat"),
        *("mkdir", "touch", "unlink", "rename", "replace", "rmdir", "iterdir", "glob", "rglob", "walk", "resolve"),
    )
} | {"pathlib.Path.cwd": WORLD, "pathlib.Path.home": WORLD}
"""Methods of values whose class is known."""

SETTLING = frozenset({"sorted", "min", "max", "sum", "len", "any", "all", "set", "frozenset", "bool", "isinstance"})
"""Built-in functions for which the order of their input does not matter."""

ORDERED = frozenset({"list", "tuple", "enumerate", "iter", "map", "filter", "zip", "reversed", "next", "dict"})
"""Built-in functions that keep the order of their input."""

MUTATORS = frozenset(
    {
        *("append", "appendleft", "extend", "extendleft", "insert", "add", "update", "setdefault", "pop", "popleft"),
        *("popitem", "remove", "discard", "clear", "sort", "reverse", "subtract", "move_to_end", "put", "put_nowait"),
        *("difference_update", "intersection_update", "symmetric_difference_update"),
    }
)
"""Methods that change a collection."""


def banned(name: str, *, has_arguments: bool) -> Banned | None:
    """Why a function of that full name must not be called; None if it may."""
    if name in HARMLESS:
        return None
    if name == "random.Random" and has_arguments:  # a seed: the same numbers every time
        return None
    found = FUNCTIONS.get(name) or METHODS.get(name)
    if found is not None:
        return found
    return next((why for prefix, why in PREFIXES if name.startswith(prefix)), None)
