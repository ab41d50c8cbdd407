"""The S3 server of the tests: one per run, shared by its workers, a bucket or prefix for each test."""

from __future__ import annotations

import http.client
import os
from collections.abc import Mapping
from itertools import count

from obstore.store import S3Store

from tests.support.s3_guard import KEY, SECRET
from tests.support.shared_server import shared_port

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
VERSIONING = """
<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Status>Enabled</Status>
</VersioningConfiguration>
"""

_numbers = count(1)
_bucket: list[str] = []


def endpoint() -> str:
    return f"http://127.0.0.1:{shared_port('s3')}"


def new_bucket(*, is_versioned: bool = False, is_locked: bool = False) -> str:
    """An empty bucket of its own; one with object locks keeps versions too."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    _ask("PUT", f"/{name}", headers={"x-amz-bucket-object-lock-enabled": "true"} if is_locked else {})
    if is_versioned:
        keep_versions(name)
    return name


def keep_versions(bucket: str) -> None:
    """The bucket keeps versions from now on. The server learns of it by and by, from messages of its own: it has when
    what is stored gets a version, a few times in a row."""
    _ask("PUT", f"/{bucket}?versioning", VERSIONING)
    in_a_row = 0
    while in_a_row < 3:
        stored = objects_in(bucket).put("probe", b"x")
        in_a_row = in_a_row + 1 if stored["version"] not in {None, "null"} else 0


def new_prefix() -> str:
    """The address of an empty part of a bucket that the tests of this process share."""
    if not _bucket:
        _bucket.append(new_bucket())
    return address(_bucket[0], f"part-{next(_numbers)}/of-it")


def address(bucket: str, prefix: str = "") -> str:
    return f"s3://{bucket}/{prefix}?endpoint={endpoint()}"


def objects_in(bucket: str, prefix: str = "") -> S3Store:
    """The bucket, seen by somebody else than Holdfast."""
    return S3Store(
        bucket,
        prefix=prefix or None,
        config={"endpoint": endpoint(), "access_key_id": KEY, "secret_access_key": SECRET, "region": "us-east-1"},
        client_options={"allow_http": True},
    )


def objects_below(home: str) -> S3Store:
    """The same by the address of a home."""
    bucket, _, prefix = home.removeprefix("s3://").partition("/")
    return objects_in(bucket, prefix)


def _ask(verb: str, path: str, body: str = "", headers: Mapping[str, str] | None = None) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", shared_port("s3"), timeout=30)
    try:
        connection.request(verb, path, body, dict(headers or {}))
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
    finally:
        connection.close()
