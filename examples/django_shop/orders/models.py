"""An ordinary model."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    number: models.CharField[str, str] = models.CharField(max_length=20, unique=True)
    state: models.CharField[str, str] = models.CharField(max_length=20, default="new")
