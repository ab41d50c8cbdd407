"""Many questions of one moment: one to the server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from holdfast.adapters.postgres.read_batches import Gathered
from holdfast.errors import StoreUnavailable


class Server:
    """Answers with the length of the name; knows no name that begins with a question mark."""

    def __init__(self) -> None:
        self.asked: list[set[str]] = []
        self.gate = asyncio.Event()
        self.error: Exception | None = None

    async def ask(self, names: Sequence[str]) -> Mapping[str, int]:
        self.asked.append(set(names))
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return {name: len(name) for name in names if not name.startswith("?")}


async def test_what_is_asked_in_one_pass_is_one_question() -> None:
    """Promise: however many look at once, one question; who comes while it is under way is not answered with it."""
    server = Server()
    gathered = Gathered(server.ask)
    first = [asyncio.ensure_future(gathered.get(name)) for name in ("a", "bb", "bb", "?")]
    while not server.asked:  # noqa: ASYNC110 a pass or two
        await asyncio.sleep(0)
    late = asyncio.ensure_future(gathered.get("a"))
    while len(server.asked) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0)
    server.gate.set()
    assert await asyncio.gather(*first, late) == [1, 2, 2, None, 1]
    assert server.asked == [{"a", "bb", "?"}, {"a"}]


async def test_who_gives_up_takes_nothing_from_the_others() -> None:
    """Promise: a cancelled asker, even the first, leaves the question to the rest."""
    server = Server()
    gathered = Gathered(server.ask)
    impatient, patient = (asyncio.ensure_future(gathered.get(name)) for name in ("a", "bb"))
    while not server.asked:  # noqa: ASYNC110
        await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.sleep(0)
    server.gate.set()
    assert await patient == 2
    assert impatient.cancelled()


async def test_an_error_reaches_everybody_and_the_next_question_is_a_new_one() -> None:
    """Promise: all who asked hear of it; nobody is answered with an old error."""
    server = Server()
    server.error = away = StoreUnavailable("away")
    server.gate.set()
    gathered = Gathered(server.ask)
    answers = await asyncio.gather(gathered.get("a"), gathered.get("bb"), return_exceptions=True)
    assert all(answer is away for answer in answers)
    server.error = None
    assert await gathered.get("a") == 1


def test_each_event_loop_has_its_own() -> None:
    """Promise: usable from one loop after the other."""

    async def asked() -> int | None:
        return await gathered.get("abc")

    async def ask(names: Sequence[str]) -> Mapping[str, int]:
        return {name: len(name) for name in names}

    gathered = Gathered(ask)
    assert [asyncio.run(asked()) for _ in range(3)] == [3, 3, 3]


@pytest.mark.parametrize("waiters", [1, 50])
async def test_a_store_answers_each_with_its_own(waiters: int) -> None:
    """Promise: nobody gets the answer to another's question."""
    server = Server()
    server.gate.set()
    gathered = Gathered(server.ask)
    names = ["x" * number for number in range(1, waiters + 1)]
    assert await asyncio.gather(*map(gathered.get, names)) == list(range(1, waiters + 1))
    assert len(server.asked) == 1
