"""What a workflow's loop refuses, as a table.

Every method of `asyncio.AbstractEventLoop` is implemented in `loop` or listed here. Each refusal names the method, the
reason and what to do instead, so an author who reaches real I/O through three libraries still learns the cause.
Refusals raise when called, not when awaited: no coroutine is left behind.
"""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

from holdfast.errors import NotAllowedHere


class _Refused:
    """One refused method. It takes its name from the attribute it is bound to."""

    def __init__(self, why: str) -> None:
        self.why = why
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, loop: object, owner: type | None = None) -> _Refused:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotAllowedHere(f"loop.{self.name}() in a workflow: {self.why}; wrap it in a step")


def _because(why: str) -> Any:
    return _Refused(why)


_DRIVEN = "a workflow's loop is driven by the engine, it cannot be run, stopped or closed from within"
_THREADS = "another thread cannot reach into a workflow, what it brings would be missing on replay"
_NETWORK = "a workflow does no I/O, a connection would be opened again on every replay"
_FILES = "a workflow does no I/O, a descriptor means nothing on replay"
_PROCESS = "a workflow starts no processes, it would start them again on every replay"
_SIGNALS = "operating system signals reach the worker, not a workflow"
_TASKS = "the loop makes its own tasks, numbered so that they replay"


class Refusals(asyncio.AbstractEventLoop):
    """The methods no workflow may use."""

    run_forever: Any = _because(_DRIVEN)
    run_until_complete: Any = _because(_DRIVEN)
    stop: Any = _because(_DRIVEN)
    close: Any = _because(_DRIVEN)
    shutdown_asyncgens: Any = _because(_DRIVEN)
    set_task_factory: Any = _because(_TASKS)
    call_soon_threadsafe: Any = _because(_THREADS)
    set_default_executor: Any = _because(_THREADS)
    shutdown_default_executor: Any = _because(_THREADS)
    getaddrinfo: Any = _because(_NETWORK)
    getnameinfo: Any = _because(_NETWORK)
    create_connection: Any = _because(_NETWORK)
    create_server: Any = _because(_NETWORK)
    create_unix_connection: Any = _because(_NETWORK)
    create_unix_server: Any = _because(_NETWORK)
    create_datagram_endpoint: Any = _because(_NETWORK)
    connect_accepted_socket: Any = _because(_NETWORK)
    start_tls: Any = _because(_NETWORK)
    sendfile: Any = _because(_NETWORK)
    sock_recv: Any = _because(_NETWORK)
    sock_recv_into: Any = _because(_NETWORK)
    sock_recvfrom: Any = _because(_NETWORK)
    sock_recvfrom_into: Any = _because(_NETWORK)
    sock_sendall: Any = _because(_NETWORK)
    sock_sendto: Any = _because(_NETWORK)
    sock_sendfile: Any = _because(_NETWORK)
    sock_connect: Any = _because(_NETWORK)
    sock_accept: Any = _because(_NETWORK)
    connect_read_pipe: Any = _because(_FILES)
    connect_write_pipe: Any = _because(_FILES)
    add_reader: Any = _because(_FILES)
    remove_reader: Any = _because(_FILES)
    add_writer: Any = _because(_FILES)
    remove_writer: Any = _because(_FILES)
    subprocess_shell: Any = _because(_PROCESS)
    subprocess_exec: Any = _because(_PROCESS)
    add_signal_handler: Any = _because(_SIGNALS)
    remove_signal_handler: Any = _because(_SIGNALS)
