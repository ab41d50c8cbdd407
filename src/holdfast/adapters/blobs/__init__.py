"""Blobs outside the store: a store whose blobs have a home, and a folder as such a home (S3 is `adapters.s3`)."""
