"""One process of a crowd: writes to the shared file as fast as it may, until the crowd has written what was asked.

    python -m tests.lab.crowds.member FILE NUMBER TOTAL

It says `ready`, waits for a line, and says at the end what it got, as JSON: see `Share`.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from pathlib import Path

import apsw
import msgspec

from holdfast.adapters.sqlite.board import Board
from holdfast.adapters.sqlite.connections import open_writable
from holdfast.adapters.sqlite.link import Link
from holdfast.adapters.sqlite.statements import BEGIN
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.adapters.sqlite.writer import Writer
from holdfast.adapters.system.clock import SystemClock
from holdfast.errors import StoreUnavailable

TABLE = "create table crowd (place integer primary key, member integer not null)"
_WRITE = "insert into crowd (member) values (?) returning place"


class Share(msgspec.Struct, frozen=True):
    """What one process got: its commits, what it asked for in vain, what that cost it, and the longest it waited."""

    commits: int
    refused: int
    asks: int
    processor: float
    longest: float


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Asks:
    """Counts how often a connection asks for the file."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, _cursor: object, statement: str, _values: object) -> bool:
        self.count += statement == BEGIN
        return True


async def take_part(writer: Writer, asks: Asks, member: int, total: int) -> Share:
    """Commits one row after the other until the table has `total`."""

    def write(transaction: Transaction) -> int:
        place: int = transaction.row(_WRITE, (member,))[0]
        return place

    commits, refused, longest, before = 0, 0, 0.0, _processor()
    while True:
        asked_at, place = time.monotonic(), 0
        try:
            place = await writer.run(write)
        except StoreUnavailable:
            refused += 1
        longest = max(longest, time.monotonic() - asked_at)
        if place > total:
            return Share(commits, refused, asks.count, _processor() - before, longest)
        commits += place > 0


def main() -> None:
    """See the module."""
    path, member, total = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    asks = Asks()

    def connect() -> apsw.Connection:
        connection = open_writable(path, "full")
        connection.exec_trace = asks
        return connection

    link = Link(connect, Board(path), lambda _: None)
    link.connected()
    writer = Writer(link, SystemClock(), lambda _: None)
    print("ready", flush=True)
    sys.stdin.readline()
    share = asyncio.run(take_part(writer, asks, member, total))
    writer.close()
    print(msgspec.json.encode(share).decode(), flush=True)


if __name__ == "__main__":
    main()
