"""Blobs outside the store: a folder that all workers share, and a store whose blobs are there."""
