"""What keeps a store from growing: retention, collection of blobs, snapshots and compaction.

Workers do it automatically, operators by command; both use this.
"""
