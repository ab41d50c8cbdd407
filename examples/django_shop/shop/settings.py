"""Settings of the project: nothing in them is about Holdfast."""

from __future__ import annotations

import os

SECRET_KEY = "only-for-this-example"  # noqa: S105
INSTALLED_APPS = ["orders"]
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("SHOP_DATABASE", "db.sqlite3")},
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
