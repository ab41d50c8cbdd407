"""`manage.py place NUMBER`: starts an order and waits for its end, as a view would start it."""

from __future__ import annotations

from argparse import ArgumentParser

from django.core.management.base import BaseCommand

from holdfast import sync

from ...flows import app, fulfil  # noqa: TID252 no module of the project has an absolute name of its own


class Command(BaseCommand):
    help = "Start an order; placing it twice starts it once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("number")

    def handle(self, *, number: str, **_: object) -> None:
        with sync.App(app) as client:
            run = client.start(fulfil(number), id=f"order-{number}")
            self.stdout.write(run.result("1m"))
