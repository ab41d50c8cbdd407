"""Holdfast: durable workflows in ordinary Python.

Write workflows as plain functions; every step's outcome is journaled before the workflow moves on, so they survive
crashes, restarts and deploys. There is no server: application and workers meet in a store, a SQLite file by default.

Names are loaded when they are first asked for: pytest loads the plugin that comes with Holdfast, and with it this
module, in projects that never use it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from holdfast.app import App
    from holdfast.authoring.batch.batch_plan import Counts
    from holdfast.authoring.batch.child_batch import batch
    from holdfast.authoring.flow.builder import FlowBuilder
    from holdfast.authoring.flow.flow_file import load_flow
    from holdfast.authoring.flow.workflow import Flow
    from holdfast.authoring.handle import JournalEvent, LeftIn, Part, RedactionResult, Run, RunView, StoredMessage
    from holdfast.authoring.hook import Hook
    from holdfast.authoring.limit import Limit
    from holdfast.authoring.machine.breaker import Breaker
    from holdfast.authoring.machine.joins import Join
    from holdfast.authoring.machine.marks import Again, ItemOutcome, More, Window
    from holdfast.authoring.machine.observers import LoggingObserver, Observer
    from holdfast.authoring.queue import Queue
    from holdfast.authoring.schedule import Schedule
    from holdfast.authoring.script.ask import Ask
    from holdfast.authoring.script.channels import RunVar, Signal, Topic
    from holdfast.authoring.script.children import start
    from holdfast.authoring.script.receipts import Receipt
    from holdfast.authoring.script.resources import resource
    from holdfast.authoring.script.sagas import saga
    from holdfast.authoring.script.steps import step
    from holdfast.authoring.script.stream import Stream
    from holdfast.authoring.script.update import Update
    from holdfast.authoring.script.verbs import (
        Current,
        continue_as,
        current,
        each,
        get_blob,
        heartbeat,
        log,
        now,
        patched,
        put_blob,
        rng,
        set_attributes,
        sleep,
        transaction,
        uuid4,
    )
    from holdfast.authoring.script.workflows import Call, remote, workflow
    from holdfast.client.batches import Batch
    from holdfast.client.items import Item
    from holdfast.client.queues import QueueView
    from holdfast.client.schedules import ScheduleHandle, ScheduleView
    from holdfast.core.machine_history import LogRow
    from holdfast.core.manifest import Manifest, ManifestEntry
    from holdfast.core.references import BlobRef
    from holdfast.core.retry import Retry
    from holdfast.core.status import Status
    from holdfast.errors import (
        CompensationFailed,
        Conflict,
        DeadlineExceeded,
        HoldfastError,
        InvalidFlow,
        InvalidItem,
        ItemsFailed,
        LimitNotFound,
        LimitReached,
        NotInRun,
        OutcomeUnknown,
        Permanent,
        ResultTimeout,
        RetryAfter,
        RunCancelled,
        RunFailed,
        RunFinished,
        RunNotFound,
        ScheduleNotFound,
        StateFailed,
        StepFailed,
        StepLimitExceeded,
        StreamFull,
        UpdateRefused,
        UpdateTimeout,
        UpdateUnanswered,
    )
    from holdfast.ports.facts import Fact
    from holdfast.standalone.machine import Machine

__version__ = "0.1.0.dev0"

__all__ = [
    "Again",
    "App",
    "Ask",
    "Batch",
    "BlobRef",
    "Breaker",
    "Call",
    "CompensationFailed",
    "Conflict",
    "Counts",
    "Current",
    "DeadlineExceeded",
    "Fact",
    "Flow",
    "FlowBuilder",
    "HoldfastError",
    "Hook",
    "InvalidFlow",
    "InvalidItem",
    "Item",
    "ItemOutcome",
    "ItemsFailed",
    "Join",
    "JournalEvent",
    "LeftIn",
    "Limit",
    "LimitNotFound",
    "LimitReached",
    "LogRow",
    "LoggingObserver",
    "Machine",
    "Manifest",
    "ManifestEntry",
    "More",
    "NotInRun",
    "Observer",
    "OutcomeUnknown",
    "Part",
    "Permanent",
    "Queue",
    "QueueView",
    "Receipt",
    "RedactionResult",
    "ResultTimeout",
    "Retry",
    "RetryAfter",
    "Run",
    "RunCancelled",
    "RunFailed",
    "RunFinished",
    "RunNotFound",
    "RunVar",
    "RunView",
    "Schedule",
    "ScheduleHandle",
    "ScheduleNotFound",
    "ScheduleView",
    "Signal",
    "StateFailed",
    "Status",
    "StepFailed",
    "StepLimitExceeded",
    "StoredMessage",
    "Stream",
    "StreamFull",
    "Topic",
    "Update",
    "UpdateRefused",
    "UpdateTimeout",
    "UpdateUnanswered",
    "Window",
    "batch",
    "continue_as",
    "current",
    "each",
    "get_blob",
    "heartbeat",
    "load_flow",
    "log",
    "now",
    "patched",
    "put_blob",
    "remote",
    "resource",
    "rng",
    "saga",
    "set_attributes",
    "sleep",
    "start",
    "step",
    "transaction",
    "uuid4",
    "workflow",
]

_HOMES = {
    "holdfast.app": "App",
    "holdfast.authoring.batch.batch_plan": "Counts",
    "holdfast.authoring.handle": "JournalEvent LeftIn Part RedactionResult Run RunView StoredMessage",
    "holdfast.authoring.hook": "Hook",
    "holdfast.authoring.flow.builder": "FlowBuilder",
    "holdfast.authoring.flow.flow_file": "load_flow",
    "holdfast.authoring.flow.workflow": "Flow",
    "holdfast.authoring.limit": "Limit",
    "holdfast.authoring.machine.breaker": "Breaker",
    "holdfast.authoring.machine.joins": "Join",
    "holdfast.authoring.machine.marks": "Again ItemOutcome More Window",
    "holdfast.authoring.machine.observers": "LoggingObserver Observer",
    "holdfast.authoring.queue": "Queue",
    "holdfast.authoring.schedule": "Schedule",
    "holdfast.authoring.batch.child_batch": "batch",
    "holdfast.authoring.script.ask": "Ask",
    "holdfast.authoring.script.update": "Update",
    "holdfast.authoring.script.channels": "RunVar Signal Topic",
    "holdfast.authoring.script.receipts": "Receipt",
    "holdfast.authoring.script.children": "start",
    "holdfast.authoring.script.resources": "resource",
    "holdfast.authoring.script.sagas": "saga",
    "holdfast.authoring.script.steps": "step",
    "holdfast.authoring.script.stream": "Stream",
    "holdfast.authoring.script.verbs": (
        "Current continue_as current each get_blob heartbeat log now patched put_blob rng set_attributes sleep "
        "transaction uuid4"
    ),
    "holdfast.authoring.script.workflows": "Call remote workflow",
    "holdfast.client.batches": "Batch",
    "holdfast.client.items": "Item",
    "holdfast.client.queues": "QueueView",
    "holdfast.client.schedules": "ScheduleHandle ScheduleView",
    "holdfast.core.machine_history": "LogRow",
    "holdfast.core.manifest": "Manifest ManifestEntry",
    "holdfast.core.references": "BlobRef",
    "holdfast.core.retry": "Retry",
    "holdfast.core.status": "Status",
    "holdfast.ports.facts": "Fact",
    "holdfast.standalone.machine": "Machine",
    "holdfast.errors": (
        "CompensationFailed Conflict DeadlineExceeded HoldfastError InvalidFlow InvalidItem ItemsFailed "
        "LimitNotFound LimitReached NotInRun OutcomeUnknown Permanent ResultTimeout RetryAfter RunCancelled "
        "RunFailed RunFinished RunNotFound ScheduleNotFound StateFailed StepFailed StepLimitExceeded StreamFull "
        "UpdateRefused UpdateTimeout UpdateUnanswered"
    ),
}
"""Where each public name lives."""


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _load(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names.split():
            found = globals()[name] = getattr(_module(home), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _module(home: str) -> ModuleType:
    try:
        return import_module(home)
    except ImportError as error:
        if problem := import_module("holdfast.extras").namesake_problem():
            error.add_note(problem)
        raise


if not TYPE_CHECKING:  # checkers read the imports above, and refuse a name that is not there
    __getattr__ = _load
