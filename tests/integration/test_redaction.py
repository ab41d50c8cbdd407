"""Redacting values of runs: they are nowhere in the store any more, the run stays readable, and it says so."""

from __future__ import annotations

import contextlib
import logging
from datetime import timedelta
from pathlib import Path

import apsw
import msgspec
import pytest

from holdfast import App, Run, RunVar, Signal, Stream, Update, put_blob, set_attributes, start, step, workflow
from holdfast import sync as blocking
from holdfast.client.compensation import compensate
from holdfast.client.exports import export_journal, import_journal
from holdfast.client.inspect.story import read_story
from holdfast.client.kept_contents import read_contents
from holdfast.client.verification import verify_run
from holdfast.core.redacted import MARK
from holdfast.core.references import BlobRef
from holdfast.core.retry import Retry
from holdfast.errors import HoldfastError, InvalidInput, RunFailed, RunOpen, RunRedacted
from holdfast.ports.store import Store
from holdfast.stores import open_store
from holdfast.testing import replay
from holdfast.upkeep.compaction import compact
from holdfast.upkeep.sweep import sweep
from tests.support.world import World

MAIL = "bob@example.org"
LONG = "x" * 200_000

go = Signal[str]("go")
tokens = Stream[str]("tokens")
seen = RunVar[dict[str, str]]("seen")
who = Update[str, str]("who")


@step
async def greet(mail: str) -> dict[str, str]:
    tokens.send(f"to {mail}")
    return {"mail": mail, "long": LONG}


@step(retry=Retry.none)
async def refuse(mail: str) -> None:
    raise ValueError(f"no account {mail}")


@workflow
async def inner(mail: str) -> str:
    return f"<{mail}>"


@workflow
async def welcome(customer: dict[str, str]) -> dict[str, str]:
    mail = customer["email"]
    set_attributes(customer=mail, kind="new")
    seen.set({"last": mail})
    found = await greet(mail)
    with contextlib.suppress(HoldfastError):
        await refuse(mail)
    said = await inner(mail)
    async with who.take() as ask:
        ask.answer(mail)
    return {"mail": found["mail"], "said": said, "text": await go.wait()}


@workflow
async def listens() -> str:
    return await go.wait()


@workflow
async def fails(mail: str) -> None:
    await refuse(mail)


@workflow
async def adopts(run: str) -> str:
    return await start(inner(MAIL), id=run).result()


@step
async def export_csv(mail: str) -> BlobRef:
    return await put_blob(f"name,{mail}".encode())


@step(input="pieces")
async def reply(mail: str, conversation: list[str]) -> int:
    return len(conversation)


@workflow
async def talks(mail: str) -> int:
    return await reply(mail, [*(f"{number} {LONG}" for number in range(2)), f"I am {mail}", LONG])


@workflow
async def exports(mail: str) -> BlobRef:
    return await export_csv(mail)


@blocking.workflow
def repeats(text: str) -> str:
    return text


async def welcomed(app: App, id: str = "r") -> Run[dict[str, str]]:
    run = await app.start(welcome({"email": MAIL, "name": "Bob"}), id=id)
    await run.update(who, f"is it {MAIL}?", id="q", timeout="60s")
    await run.signal(go, f"from {MAIL}")
    await run.wait("60s")
    return run


async def everything(store: Store, run: str) -> str:
    """All that the store keeps of a run, with its blobs and its streams."""
    row = await store.get(run)
    assert row is not None
    kept = await read_contents(store, row)
    blobs = dict(await store.get_blobs(kept.contents.references))
    turns = (*kept.condensed, *kept.turns)
    parts = (kept.row, [row.body.decode() for row in kept.rows], turns, kept.parts, kept.contents)
    texts = [message.body.decode() for message in kept.contents.messages]
    texts += [part.packed.decode() for _, part in kept.parts]
    texts += [data.decode(errors="replace") for data in (*blobs.values(), *kept.blobs.values())]
    texts += [value.value.decode() for value in kept.contents.shown]
    texts += [answer.value.decode() for answer in kept.contents.answers]
    return msgspec.json.encode(parts).decode() + "".join(texts)


@pytest.mark.parametrize("is_compacted", [False, True])
async def test_a_value_is_nowhere_any_more(world: World, is_compacted: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: one path takes the value and all its copies out of the run, also from a compacted journal; the run
    verifies, is shown and says what was redacted, by whom and why; a reader of a value gets a typed error."""
    caplog.set_level(logging.INFO, "holdfast")
    async with world.serving(welcome, inner, greet, refuse) as app:
        run = await welcomed(app)
        row = await world.store.get("r")
        assert row is not None
        if is_compacted:
            assert await compact(world.store, "r", row.no, row.next_ordinal - 1) > 1
        assert MAIL in await everything(world.store, "r")
        found = await run.redact("input.customer.email", reason=f"{MAIL} asked")
        assert MAIL not in await everything(world.store, "r")
        assert LONG in await everything(world.store, "r")
        assert {"input", "attributes.customer", "values.seen", "steps.greet.result", "steps.refuse.error"} <= {
            *found.changed
        }
        assert {"children.inner.result", "answers.q", "signals.go", "result", "streams.tokens.0"} <= {*found.changed}
        assert {(one.run, one.place) for one in found.left_in} == {("r/inner", "input.mail"), ("r/inner", "result")}
        row = await world.store.get("r")
        assert row is not None
        assert (await verify_run(world.store, row)).problems == ()
        story = await read_story(await app.client(), "r")
        assert story.input == {"customer": {"email": MARK, "name": "Bob"}}
        assert story.problems == []
        assert [f"input.customer.email ({MARK} asked)" in said for said in story.redacted] == [True]
        assert [entry.kind for entry in story.line.entries].count("redacted") == 1
        for ask in (run.result(), run.get(seen), run.read_now(tokens), run.update(who, "?", id="q"), run.retry()):  # type: ignore[attr-defined]
            with pytest.raises(RunRedacted):
                await ask
    told = [record.__dict__ for record in caplog.records if record.__dict__.get("fact") == "redacted"]
    assert [record["run"] for record in told] == ["r"]
    assert MAIL not in str([record.getMessage() for record in caplog.records if "redacted" in record.getMessage()])


async def test_what_is_left_can_be_redacted_there(world: World) -> None:
    """Promise: the places that the answer names are paths; redacting there leaves nothing in the tree."""
    async with world.serving(welcome, inner, greet, refuse) as app:
        await welcomed(app)
        child = await app.get("r/inner")
        found = await child.redact("input.mail")
        assert found.changed == ("input", "result")
        assert {one.run for one in found.left_in} == {"r"}
        rest = await (await app.get("r")).redact(*(one.place for one in found.left_in))
        assert rest.left_in == ()
        for name in ("r", "r/inner"):
            assert MAIL not in await everything(world.store, name)


async def test_looking_first_writes_nothing(world: World) -> None:
    """Promise: a dry run answers as the real one would, and changes nothing."""
    async with world.serving(welcome, inner, greet, refuse) as app:
        run = await welcomed(app)
        before = await everything(world.store, "r")
        would = await run.redact("input.customer.email", dry_run=True)
        assert would.is_dry
        assert await everything(world.store, "r") == before
        done = await run.redact("input.customer.email")
        assert (done.changed, done.left_in) == (would.changed, would.left_in)


async def test_what_cannot_be_redacted(world: World) -> None:
    """Promise: an open run, a path at which there is nothing, a path twice and no path are typed errors that say what
    next, and write nothing."""
    async with world.serving(listens, inner) as app:
        run = await app.start(listens(), id="open")
        with pytest.raises(RunOpen, match="holdfast cancel open"):
            await run.redact("result")
        await run.signal(go, "hello you")
        await run.wait("60s")
        before = await everything(world.store, "open")
        with pytest.raises(InvalidInput, match=r"nothing at 'signals\.goo'.*Did you mean signals\.go\?"):
            await run.redact("signals.goo")
        for paths in ((), ("",), ("x" * 1001,)):
            with pytest.raises(InvalidInput, match=r"input\.customer\.email"):
                await run.redact(*paths)
        assert await everything(world.store, "open") == before
        await run.redact("result")
        with pytest.raises(InvalidInput, match="redacted before"):
            await run.redact("result")


async def test_a_redacted_error_is_still_an_error(world: World) -> None:
    """Promise: the run stays failed; its message has the mark in the place of the value."""
    async with world.serving(fails, refuse) as app:
        run = await app.start(fails(MAIL), id="r")
        await run.wait("60s")
        await run.redact("input.mail")
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert MAIL not in str(failed.value) + failed.value.traceback
        assert MARK in failed.value.message
        assert [view.id async for view in app.runs(error=MAIL)] == []


async def test_a_parent_that_adopts_a_redacted_run_is_told(world: World) -> None:
    """Promise: a mark is never taken for a value, in workflows too; and a start with the same id finds the run."""
    async with world.serving(inner, adopts) as app:
        run = await app.start(inner(MAIL), id="c")
        await run.wait("60s")
        await run.redact("result")
        with pytest.raises(RunFailed, match="RunRedacted"):
            await (await app.start(adopts("c"), id="p")).result("60s")
        again = await app.start(inner(MAIL), id="c")
        assert not again.is_new  # type: ignore[attr-defined]


async def test_arguments_in_pieces_are_redacted_whole(world: World) -> None:
    """Promise: what a piece of large arguments has is taken out like any other value, and the pieces are collected."""
    async with world.serving(talks, reply) as app:
        run = await app.start(talks(MAIL), id="r")
        await run.wait("60s")
        assert MAIL in await everything(world.store, "r")
        found = await run.redact("input.mail")
        assert "steps.reply.input" in found.changed
        assert MAIL not in await everything(world.store, "r")
        row = await world.store.get("r")
        assert row is not None
        assert (await verify_run(world.store, row)).problems == ()
        swept = await sweep(world.store, None, grace=timedelta(0))
        assert swept.collected.blobs > 1
        assert (await verify_run(world.store, row)).problems == ()


async def test_a_stored_blob_is_named(world: World) -> None:
    """Promise: what a step put into a blob is not searched and changed, but named; redacting its reference drops it."""
    async with world.serving(exports, export_csv) as app:
        run = await app.start(exports(MAIL), id="r")
        ref = await run.result("60s")
        found = await run.redact("input.mail")
        assert [one.place for one in found.left_in] == [f"blob {ref.name}"]
        assert (await run.redact("steps.export_csv.result")).left_in == ()
        row = await world.store.get("r")
        assert row is not None
        assert (await verify_run(world.store, row)).problems == ()
        contents = await world.store.contents(row.no)
        assert contents is not None
        assert contents.references == frozenset()


async def test_an_item_of_a_batch_is_redacted_alone(world: World) -> None:
    """Promise: the other items keep their results; the inputs of the batch, which have the value, are named, and go
    when its input is redacted."""
    async with world.serving(inner) as app:
        batch = await app.start_batch(inner, [MAIL, "ann@example.org"], id="b")
        items = [item async for item in batch.items()]
        found = await (await app.get(items[0].run)).redact("input.mail")
        assert {one.run for one in found.left_in} == {"b"}
        assert any(one.place.startswith("blob ") for one in found.left_in)
        after = [item async for item in batch.items()]
        assert [type(item.error) for item in after] == [RunRedacted, type(None)]
        assert after[1].result == "<ann@example.org>"
        places = [one.place for one in found.left_in if not one.place.startswith("blob ")]
        rest = await (await app.get("b")).redact("input.plan.index", "input.plan.held", *places)
        assert rest.left_in == ()


async def test_an_export_of_it_is_imported(world: World, tmp_path: Path) -> None:
    """Promise: the file has nothing of the value; imported, the run verifies and says that it was redacted; a replay of
    it is refused, as is undoing it by hand."""
    async with world.serving(welcome, inner, greet, refuse) as app:
        run = await welcomed(app)
        await run.redact("input.customer.email")
        await (await app.get("r/inner")).redact("input.mail")
        data = await export_journal(world.store, "r")
        assert MAIL.encode() not in data
        other = await open_store("memory://")
        await import_journal(other, data, "file")
        row = await other.get("r")
        assert row is not None
        assert (await verify_run(other, row)).problems == ()
        (tmp_path / "r.json").write_bytes(data)
        report = replay(str(tmp_path / "r.json"), app)
        assert ["was redacted" in str(problem) for problem in report.problems] == [True, True]
        with pytest.raises(RunRedacted, match="undone by hand"):
            await compensate(await app.client(), "r")


def holding(folder: Path, text: str) -> list[str]:
    """The files of a folder that contain a text."""
    return [file.name for file in folder.iterdir() if text.encode() in file.read_bytes()]


async def test_no_byte_of_the_file_has_it(tmp_path: Path) -> None:
    """Promise: on SQLite, after redacting, collecting and VACUUM, the bytes are in none of the files of the store."""
    path = tmp_path / "s.db"
    async with App(f"sqlite:///{path}", workflows=[welcome, inner, greet, refuse]) as app:
        async with app.worker():
            await welcomed(app)
        assert holding(tmp_path, MAIL)
        await (await app.get("r")).redact("input.customer.email")
        await (await app.get("r/inner")).redact("input.mail")
        await sweep((await app.client()).store, None, grace=timedelta(0))
    connection = apsw.Connection(str(path))
    connection.execute("VACUUM")
    connection.close()
    assert holding(tmp_path, MAIL) == []


def test_redacting_blocks_in_sync(tmp_path: Path) -> None:
    """Promise: `holdfast.sync` has the verb."""
    with blocking.App(f"sqlite:///{tmp_path / 's.db'}", workflows=[repeats]) as app, app.worker():
        run = app.start(repeats.call(MAIL), id="r")
        run.wait("60s")
        assert run.redact("input.text", dry_run=True).changed == ("input", "result")
        assert run.redact("input.text", reason="asked").changed == ("input", "result")
        with pytest.raises(RunRedacted):
            run.result()
