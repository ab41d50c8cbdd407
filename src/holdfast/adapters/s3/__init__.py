"""Blobs in S3 or a compatible service: a bucket, or a part of one, as a home for blobs.

::

    s3://bucket/prefix ─▶ address ──▶ S3Home ─▶ prefix/holdfast-store        the label of the store it belongs to
    environment, shared files, roles ─┘         prefix/<sha-256>/<second>    the bytes, as stored in that second

An object never changes: storing a blob writes a new one, and only old objects are removed. So no writer has to ask
whether an object exists, and no removal can race with a writer.
"""

from holdfast.errors import StoreRefused
from holdfast.extras import lack_of

if _lack := lack_of("s3", "blobs in s3:// need", obstore="obstore"):
    raise StoreRefused(_lack)

from holdfast.adapters.s3.address import S3Address, parse_s3_address
from holdfast.adapters.s3.home import S3Home

__all__ = ["S3Address", "S3Home", "parse_s3_address"]
