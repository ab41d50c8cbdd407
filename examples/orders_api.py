"""Orders over HTTP: FastAPI, SQLAlchemy and PostgreSQL. The order's row and its run are written by one transaction.

    DATABASE=postgresql://shop@localhost/shop uvicorn examples.orders_api:api
    curl -X POST localhost:8000/orders -H 'Content-Type: application/json' -d '{"id": "42", "cents": 999}'
    curl -N localhost:8000/orders/42/events          # what happens to it, live

Here the worker is part of the service. To run workers apart, use `async with shop:` instead and start
`holdfast worker examples.orders_api:shop`.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from holdfast import App, Conflict, RunNotFound, Stream, step, workflow

DATABASE = os.environ.get("DATABASE", "postgresql://localhost/shop")
engine = create_async_engine(DATABASE.partition("?")[0].replace("postgresql:", "postgresql+psycopg:"))
sessions = async_sessionmaker(engine, expire_on_commit=False)
events = Stream[str]("events")


class Table(DeclarativeBase):
    pass


class Order(Table):
    __tablename__ = "orders"

    id: Mapped[str] = mapped_column(primary_key=True)
    cents: Mapped[int]
    state: Mapped[str] = mapped_column(default="new")


class NewOrder(BaseModel):
    id: str
    cents: int


@step
async def move(order: str, state: str) -> None:
    """A step may run again after a crash; setting the state twice is the same as once."""
    async with sessions.begin() as db:
        row = await db.get_one(Order, order)
        row.state = state
    events.send(f"{order} {state}")


@workflow
async def fulfil(order: str) -> str:
    await move(order, "paid")
    await move(order, "shipped")
    return f"{order} is on its way"


shop = App(DATABASE, workflows=[fulfil])


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
    async with engine.begin() as db:
        await db.run_sync(Table.metadata.create_all)
    async with shop.worker():
        yield
    await engine.dispose()


async def session() -> AsyncIterator[AsyncSession]:
    async with sessions() as opened:
        yield opened


Session = Annotated[AsyncSession, Depends(session)]
api = FastAPI(lifespan=lifespan)


@api.post("/orders", status_code=202)
async def place(new: NewOrder, db: Session) -> dict[str, str]:
    """Row and run, or neither: there is no order without its run, and no run without its order."""
    if await db.get(Order, new.id) is not None:
        raise HTTPException(409, f"order {new.id} exists")
    db.add(Order(id=new.id, cents=new.cents))
    try:
        run = await shop.start(fulfil(new.id), id=f"order-{new.id}", connection=db)
    except Conflict as error:
        raise HTTPException(409, str(error)) from error
    await db.commit()
    return {"run": run.id}


@api.get("/orders")
async def orders(db: Session) -> dict[str, str]:
    return {row.id: row.state for row in await db.scalars(select(Order).order_by(Order.id))}


@api.get("/orders/{order}/events")
async def follow(order: str, after: int = -1) -> StreamingResponse:
    """Server-sent events. A client that comes back passes the last id as `after`, and misses nothing."""
    try:
        run = await shop.get(f"order-{order}", fulfil)
    except RunNotFound as error:
        raise HTTPException(404, f"no order {order}") from error

    async def sent() -> AsyncIterator[str]:
        async for part in run.read(events, after=None if after < 0 else after):
            yield f"id: {part.offset}\ndata: {json.dumps(part.value)}\n\n"

    return StreamingResponse(sent(), media_type="text/event-stream")
