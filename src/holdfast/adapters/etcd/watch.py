"""Reports runs whose key disappears. The watch has its own thread.

Each watch begins with a listing. A known key that is not listed disappeared unseen, while the connection was down or
behind a compaction. So nothing depends on the history that etcd keeps.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

from holdfast.adapters.etcd.connection import Connection, grpc, rpc
from holdfast.adapters.etcd.keys import Keys, below
from holdfast.adapters.leases.orphans import Orphans


class Watch:
    """One stream of orphans. `known`: runs that have a key, as far as this process has heard; shared by streams."""

    def __init__(self, connection: Connection, keys: Keys, known: set[str]) -> None:
        self._connection = connection
        self._keys = keys
        self._known = known
        self._ended = threading.Event()
        self._stream: Any = None
        thread = threading.Thread(target=self._run, name="holdfast-etcd-watch", daemon=True)
        self._orphans = Orphans("etcd", thread.start, self._end)

    def runs(self) -> AsyncIterator[str]:
        """Yields orphans until the cluster cannot be reached, then raises `StoreUnavailable`."""
        return self._orphans.runs()

    def _end(self) -> None:
        self._ended.set()
        if self._stream is not None:
            self._stream.cancel()

    # -- in the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self._follow(self._list())
                self._connection.turn_away()
        except Exception as error:  # noqa: BLE001 - told to the listener
            self._orphans.fail(error)

    def _list(self) -> int:
        """Reports known runs that are missing, and returns the revision to watch from."""
        answer = self._connection.call("KVStub", "Range", below(self._keys.runs, keys_only=True))
        listed = {self._keys.run_of(kv.key) for kv in answer.kvs}
        self._orphans.tell(*(self._known - listed))
        self._known.clear()
        self._known.update(listed)
        return int(answer.header.revision) + 1

    def _follow(self, revision: int) -> None:
        """Reads the stream until it ends for any reason."""
        request = below(self._keys.runs)
        create = rpc.WatchCreateRequest(key=request.key, range_end=request.range_end, start_revision=revision)
        stream = self._stream = self._connection.watch(self._requests(rpc.WatchRequest(create_request=create)))
        try:
            for answer in stream:
                if answer.canceled or self._ended.is_set():
                    return
                for event in answer.events:
                    self._hear(event)
        except grpc.RpcError:
            return
        finally:
            stream.cancel()

    def _requests(self, first: Any) -> Iterator[Any]:
        """The request, then nothing more, which keeps the stream open."""
        yield first
        self._ended.wait()

    def _hear(self, event: Any) -> None:
        run = self._keys.run_of(event.kv.key)
        if event.type == rpc.Event.DELETE:
            self._known.discard(run)
            self._orphans.tell(run)
        else:
            self._known.add(run)
