"""Configuration: frozen settings, and the one way to find them.

::

    holdfast.toml or [tool.holdfast]  ◀  .env  ◀  HOLDFAST_… environment  ◀  flags
        └──────────── loading: layers, typed key by key, each value with its origin ────┘
                                     ▼
                       settings: one frozen value, checked as a whole

The app, the worker and the command line all ask `load`. A key that nothing honours is refused, not ignored.
"""

from holdfast.config.keys import URL_VARIABLE
from holdfast.config.settings import (
    DEFAULT_URL,
    Configuration,
    HttpSettings,
    LeaseSettings,
    RecoverySettings,
    StoreSettings,
    UpkeepSettings,
    WorkerSettings,
)
from holdfast.config.sources import FILE_VARIABLE, Loaded, load

__all__ = [
    "DEFAULT_URL",
    "FILE_VARIABLE",
    "URL_VARIABLE",
    "Configuration",
    "HttpSettings",
    "LeaseSettings",
    "Loaded",
    "RecoverySettings",
    "StoreSettings",
    "UpkeepSettings",
    "WorkerSettings",
    "load",
]
