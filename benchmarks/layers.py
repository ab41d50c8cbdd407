"""Which layer a function of the profile belongs to."""

from __future__ import annotations

PROGRAM = "program and its loop"
CODEC = "payload codec"
FOLD = "core: fold, events, rows"
ENGINE = "engine and worker"
CLIENT = "client and app"
ADAPTER = "store's adapter (Python)"
SQLITE = "SQLite or psycopg itself"
ASYNCIO = "asyncio"
BODIES = "workflow and step bodies"
OTHER = "other"
LAYERS = (PROGRAM, CODEC, FOLD, ENGINE, CLIENT, ADAPTER, SQLITE, ASYNCIO, BODIES, OTHER)

SPLIT = {
    "SQLite or PostgreSQL": (SQLITE,),
    "asyncio": (ASYNCIO,),
    "codec": (CODEC,),
    "ours": (PROGRAM, FOLD, ENGINE, CLIENT, ADAPTER),
    "Python's builtins, bodies": (OTHER, BODIES),
}
"""The same in five lines. What Python's own functions take is mostly asked for by ours."""

_BY_PATH = (
    ("holdfast/authoring/", PROGRAM),
    ("holdfast/core/payload", CODEC),
    ("holdfast/core/codec", CODEC),
    ("holdfast/core/nodes", CODEC),
    ("holdfast/core/", FOLD),
    ("holdfast/turn/", ENGINE),
    ("holdfast/engine/", ENGINE),
    ("holdfast/worker/", ENGINE),
    ("holdfast/client/", CLIENT),
    ("holdfast/app", CLIENT),
    ("holdfast/adapters/", ADAPTER),
    ("/psycopg", SQLITE),
    ("benchmarks/", BODIES),
    ("/asyncio/", ASYNCIO),
    ("/selectors.py", ASYNCIO),
    ("/concurrent/", ASYNCIO),
)
_BY_NAME = (
    ("apsw", SQLITE),
    ("psycopg", SQLITE),
    ("msgspec", CODEC),
    ("blake2", FOLD),
    ("_asyncio", ASYNCIO),
    ("_contextvars", ASYNCIO),
    ("Context", ASYNCIO),
    ("select.", ASYNCIO),
    ("_socket", ASYNCIO),
)


def layer_of(file: str, name: str) -> str:
    """By its file, or, of a function in C, by its name."""
    if file == "~":
        return next((layer for part, layer in _BY_NAME if part in name), OTHER)
    return next((layer for part, layer in _BY_PATH if part in file), OTHER)
