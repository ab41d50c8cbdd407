"""A complete three-method store for standalone machines: one file of JSON lines for each run.

It is what `holdfast.ports.machine_log` asks for and nothing more: `append` is durable when it returns and refuses a
second row of one sequence, also from another process; `load` gives the rows in order; `clear` drops one run. A line
that a crash cut short was never acknowledged, so it is dropped.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from holdfast import Conflict, LogRow
from holdfast.core.machine_history import decode_log_row, encode_log_row


class FileLog:
    """Keeps each run in a file of its own, in one folder."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    def append(self, run_id: str, row: LogRow) -> None:
        """One line, on the disk when this returns."""
        path = self._path(run_id)
        is_new = not path.exists()
        with self._locked(path) as file:
            lines = _whole_lines(file)
            if any(decode_log_row(line, path.name).sequence == row.sequence for line in lines):
                raise Conflict(f"run {run_id} has a row {row.sequence} already")
            file.seek(sum(map(len, lines)))
            file.truncate()
            file.write(encode_log_row(row) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            self._sync_folder()

    def load(self, run_id: str) -> list[LogRow]:
        """The rows of a run, in order."""
        path = self._path(run_id)
        if not path.exists():
            return []
        with self._locked(path) as file:
            lines = _whole_lines(file)
        rows = [decode_log_row(line, f"{path.name}, line {number}") for number, line in enumerate(lines, 1)]
        return sorted(rows, key=lambda row: row.sequence)

    def clear(self, run_id: str) -> None:
        """Drops the file of a run."""
        self._path(run_id).unlink(missing_ok=True)
        self._sync_folder()

    def _path(self, run_id: str) -> Path:
        name = quote(run_id, safe=" ")
        if len(name) > 200:  # what a file system takes
            name = name[:160] + hashlib.sha256(run_id.encode()).hexdigest()[:32]
        return self._folder / f"{name}.jsonl"

    @contextmanager
    def _locked(self, path: Path) -> Iterator[BinaryIO]:
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # given back when the file is closed, or its process dies
            yield file

    def _sync_folder(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _whole_lines(file: BinaryIO) -> list[bytes]:
    file.seek(0)
    return [line for line in file if line.endswith(b"\n")]
