"""The workflow of an order. Steps are plain `def` functions with Django's ORM; they run in threads.

python manage.py migrate --run-syncdb
holdfast worker orders.flows:app        # finds manage.py and sets the project up
python manage.py place 42
"""

from __future__ import annotations

import asyncio
import os

from holdfast import App, step, workflow

from .models import Order


@step
def create(number: str) -> int:
    """A step may run again after a crash: `get_or_create` finds what the first attempt made."""
    order, _ = Order.objects.get_or_create(number=number)
    return int(order.pk)


@step
def mark(order: int, state: str) -> str:
    Order.objects.filter(pk=order).update(state=state)
    return state


@workflow
async def fulfil(number: str) -> str:
    order = await asyncio.to_thread(create, number)
    await asyncio.to_thread(mark, order, "paid")
    return await asyncio.to_thread(mark, order, "shipped")


app = App(os.environ.get("SHOP_STORE", "sqlite:///holdfast.db"), workflows=[fulfil])
