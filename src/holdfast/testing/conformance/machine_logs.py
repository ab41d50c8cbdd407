"""What a three-method store must do for standalone machines."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.machine_history import COMPLETION, CURSOR, ENTRY, ROLLBACK, UNDONE, LogRow, rehydrate
from holdfast.ports.machine_log import MachineLog
from holdfast.testing.conformance.suite import shows


async def _waited(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


def _row(sequence: int, *, blob: bytes | None = b"{}") -> LogRow:
    return LogRow(sequence, ENTRY, f"State{sequence}", "task", sequence + 1, "1", blob)


class MachineLogSuite:
    """Bind it to your store: `class TestMine(MachineLogSuite): def open(self, folder): return MyLog(folder)`."""

    def open(self, folder: Path) -> Any:
        """Opens the store kept in that folder; called again, one over the same rows. May be `async def`."""
        raise NotImplementedError

    def check(self, case: Any, folder: Path) -> None:
        """Runs a case on its own event loop."""

        async def run() -> None:
            await case(folder)

        asyncio.run(run())

    @shows("cano.K1", "cano.K2", "cano.K5", "cano.K6")
    def test_a_row_comes_back_whole(self, tmp_path: Path) -> None:
        """Contract: every field of every kind of row comes back, an empty blob as an empty one, no blob as none."""

        async def case(folder: Path) -> None:
            store: MachineLog = await _waited(self.open(folder))
            rows = [
                LogRow(0, ENTRY, "Quoting", "choose", 1, "2", b'{"shelf":"B7"}'),
                LogRow(1, CURSOR, "Quoting", "choose", 1, "2", b""),
                LogRow(2, COMPLETION, "Quoting", "choose", 1, "2", b'{"Packing":{}}'),
                LogRow(3, ROLLBACK, "Packing", "", 2, "2", bytes(range(256))),
                LogRow(4, UNDONE, "Quoting", "release", 1, "2", None),
            ]
            for row in rows:
                await _waited(store.append("run-1", row))
            assert list(await _waited(store.load("run-1"))) == rows

        self.check(case, tmp_path)

    @shows("cano.K2", "cano.K9")
    def test_a_second_row_of_one_sequence_is_refused(self, tmp_path: Path) -> None:
        """Contract: it is an error, and the first row stays as it was; another run may use the same sequence."""

        async def case(folder: Path) -> None:
            store: MachineLog = await _waited(self.open(folder))
            await _waited(store.append("run-1", _row(0)))
            with pytest.raises(Exception):  # noqa: B017,PT011 which error is the store's own affair
                await _waited(store.append("run-1", LogRow(0, CURSOR, "Other", "other", 9, "9", b"other")))
            await _waited(store.append("run-2", _row(0)))
            assert list(await _waited(store.load("run-1"))) == [_row(0)]

        self.check(case, tmp_path)

    @shows("cano.K3")
    def test_rows_come_in_order_whatever_the_order_of_writing(self, tmp_path: Path) -> None:
        """Contract: ascending by sequence; an unknown run has none."""

        async def case(folder: Path) -> None:
            store: MachineLog = await _waited(self.open(folder))
            for sequence in (0, 2, 10, 1, 9, 3, 8, 4, 7, 5, 6):
                await _waited(store.append("run-1", _row(sequence)))
            assert [row.sequence for row in await _waited(store.load("run-1"))] == list(range(11))
            assert list(await _waited(store.load("nobody"))) == []

        self.check(case, tmp_path)

    @shows("cano.K4")
    def test_clear_drops_one_run_only(self, tmp_path: Path) -> None:
        """Contract: other runs keep their rows; an unknown run is no error; afterwards the id is free again."""

        async def case(folder: Path) -> None:
            store: MachineLog = await _waited(self.open(folder))
            for run in ("run-1", "run-2"):
                await _waited(store.append(run, _row(0)))
            await _waited(store.clear("run-1"))
            await _waited(store.clear("nobody"))
            assert list(await _waited(store.load("run-1"))) == []
            assert list(await _waited(store.load("run-2"))) == [_row(0)]
            await _waited(store.append("run-1", _row(0)))
            assert list(await _waited(store.load("run-1"))) == [_row(0)]

        self.check(case, tmp_path)

    @shows("cano.K1", "cano.K9")
    def test_many_writers_at_once(self, tmp_path: Path) -> None:
        """Contract: concurrent rows of many runs are all stored."""

        async def case(folder: Path) -> None:
            store: MachineLog = await _waited(self.open(folder))

            async def write(run: str) -> None:
                for sequence in range(20):
                    await _waited(store.append(run, _row(sequence)))

            await asyncio.gather(*(write(f"run-{number}") for number in range(8)))
            for number in range(8):
                assert len(await _waited(store.load(f"run-{number}"))) == 20

        self.check(case, tmp_path)

    @shows("cano.K9")
    def test_large_and_strange_values(self, tmp_path: Path) -> None:
        """Contract: five million bytes and any text an id may hold come back."""

        async def case(folder: Path) -> None:
            store: MachineLog = await _waited(self.open(folder))
            large = LogRow(0, ENTRY, "Gross", "ärger", 1, "", bytes(range(250)) * 20_000)
            for run in ("../run 1", "run/1", "läuft ⚙", "run-1"):
                await _waited(store.append(run, large))
                assert list(await _waited(store.load(run))) == [large]

        self.check(case, tmp_path)

    @shows("cano.K7")
    def test_it_survives_being_opened_again(self, tmp_path: Path) -> None:
        """Contract: what was appended is there for the next process."""

        async def case(folder: Path) -> None:
            store: MachineLog = await _waited(self.open(folder))
            await _waited(store.append("run-1", _row(0)))
            again: MachineLog = await _waited(self.open(folder))
            past = rehydrate("run-1", await _waited(again.load("run-1")))
            assert past.last == _row(0)
            with pytest.raises(Exception):  # noqa: B017,PT011
                await _waited(again.append("run-1", _row(0)))

        self.check(case, tmp_path)
