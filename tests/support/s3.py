"""The S3 server of the tests: one per run, shared by its workers, a bucket or prefix for each test."""

from __future__ import annotations

import http.client
import os
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


def new_bucket(*, is_versioned: bool = False) -> str:
    """An empty bucket of its own."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    _ask("PUT", f"/{name}")
    if is_versioned:
        _ask("PUT", f"/{name}?versioning", VERSIONING)
    return name


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


def _ask(verb: str, path: str, body: str = "") -> None:
    connection = http.client.HTTPConnection("127.0.0.1", shared_port("s3"), timeout=30)
    try:
        connection.request(verb, path, body)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
    finally:
        connection.close()
