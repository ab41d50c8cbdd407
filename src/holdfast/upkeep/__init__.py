"""What keeps a store from growing: retention, collection of blobs, snapshots and compaction.

A worker does it by itself, an operator by command; both stand on this.
"""
