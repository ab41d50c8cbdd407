"""Addresses of buckets: `s3://bucket/prefix?endpoint=https://…&region=…`. Pure.

An address appears in configuration and in logs, so it must not contain secrets. One that does is refused, and the error
does not repeat it.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from holdfast.errors import InvalidInput

EXAMPLE: Final = '"s3://bucket/prefix", or for a server of your own "s3://bucket/prefix?endpoint=https://host:9000"'
OPTIONS: Final = ("endpoint", "region")

_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
_SEGMENT = re.compile(r"[A-Za-z0-9!_.*'()=@,+-]+")


class S3Address(msgspec.Struct, frozen=True):
    """A bucket, or the part of it below a prefix. Endpoint and region default to the environment's."""

    bucket: str
    prefix: str
    endpoint: str = ""
    region: str = ""

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


def parse_s3_address(text: str) -> S3Address:
    """Parses an address. Raises `InvalidInput`, which says what is wrong."""
    parts = urlsplit(text)
    if "@" in parts.netloc:
        raise InvalidInput(
            'blobs="s3://…@…": an address takes no keys. Put them where S3\'s own tools look: AWS_ACCESS_KEY_ID and '
            "AWS_SECRET_ACCESS_KEY, ~/.aws/credentials, or the role of the machine."
        )
    if not _BUCKET.fullmatch(parts.netloc):
        _refuse(text, "that is not the name of a bucket")
    prefix = unquote(parts.path).strip("/")
    if prefix and not all(_SEGMENT.fullmatch(part) and part.strip(".") for part in prefix.split("/")):
        _refuse(text, "the prefix is made of letters, digits and !_.*'()=@,+- between single slashes")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := [name for name in options if name not in OPTIONS]:
        raise InvalidInput(  # the rest of the address is not repeated: this may be a secret
            f'blobs="s3://{parts.netloc}/…": unknown option {unknown[0]!r}; known are {" and ".join(OPTIONS)}'
        )
    endpoint = options.get("endpoint", "")
    if endpoint:
        place = urlsplit(endpoint)
        if place.scheme not in {"http", "https"} or not place.hostname or "@" in place.netloc or place.query:
            raise InvalidInput(
                f'blobs="s3://{parts.netloc}/…": the endpoint is an address such as https://host:9000, without keys'
            )
    if parts.fragment:
        _refuse(text, "an address has no part after a #")
    return S3Address(parts.netloc, prefix, endpoint.rstrip("/"), options.get("region", ""))


def _refuse(text: str, reason: str) -> NoReturn:
    raise InvalidInput(f"blobs={text.partition('?')[0]!r}: {reason}. Write {EXAMPLE}")
