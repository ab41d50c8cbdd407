"""Addresses of buckets take no secrets, and say what is wrong with them."""

from __future__ import annotations

import pytest

from holdfast import App
from holdfast.adapters.s3 import S3Address, parse_s3_address
from holdfast.config import load
from holdfast.errors import InvalidConfig, InvalidInput


def test_an_address_names_a_bucket() -> None:
    """Contract: with or without prefix, endpoint and region; shown it has no options."""
    assert parse_s3_address("s3://my-bucket") == S3Address("my-bucket", "")
    found = parse_s3_address("s3://my-bucket/a/b%20c/?endpoint=http://127.0.0.1:9000/&region=eu-1".replace("%20", "-"))
    assert found == S3Address("my-bucket", "a/b-c", "http://127.0.0.1:9000", "eu-1")
    assert str(found) == "s3://my-bucket/a/b-c"


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("s3://", "not the name of a bucket"),
        ("s3://A_Bucket", "not the name of a bucket"),
        ("s3:bucket", "not the name of a bucket"),
        ("s3://bucket/a//b", "the prefix is made of"),
        ("s3://bucket/../b", "the prefix is made of"),
        ("s3://bucket/a%0ab", "the prefix is made of"),
        ("s3://bucket/a#b", "no part after a #"),
        ("s3://bucket?endpoint=ftp://host", "the endpoint is an address"),
        ("s3://bucket?endpoint=http://", "the endpoint is an address"),
    ],
)
def test_a_wrong_address_is_refused(address: str, reason: str) -> None:
    """Contract: the error says what is wrong; nothing is opened."""
    with pytest.raises(InvalidInput, match=reason):
        parse_s3_address(address)


@pytest.mark.parametrize(
    "address",
    [
        "s3://key:hunter2@bucket/prefix",
        "s3://bucket/prefix?secret_access_key=hunter2",
        "s3://bucket/prefix?endpoint=https://key:hunter2@host",
    ],
)
async def test_an_address_with_keys_is_refused_and_not_repeated(address: str) -> None:
    """Contract: neither the error nor the app shows the secret."""
    with pytest.raises(InvalidInput) as refused:
        parse_s3_address(address)
    assert "hunter2" not in str(refused.value)
    app = App("memory://", blobs=address)
    with pytest.raises(InvalidInput) as refused:
        await app.client()
    assert "hunter2" not in f"{refused.value} {app!r}"


def test_the_configuration_takes_a_bucket_and_no_keys() -> None:
    """Contract: checked with the rest, before anything is opened; a secret is not repeated."""
    name = "HOLDFAST_STORE_BLOBS"
    assert load(environ={name: "s3://bucket/prefix"}).settings.store.blobs == "s3://bucket/prefix"
    with pytest.raises(InvalidConfig, match="must not contain keys") as refused:
        load(environ={name: "s3://key:hunter2@bucket"})
    assert "hunter2" not in str(refused.value)
    with pytest.raises(InvalidConfig, match="a folder of blobs only"):
        load(environ={name: "s3://bucket", "HOLDFAST_STORE_SHARED": "true"})
    with pytest.raises(InvalidConfig, match="s3://bucket/prefix"):
        load(environ={name: "gs://bucket"})
