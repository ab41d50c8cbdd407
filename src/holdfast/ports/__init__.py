"""What Holdfast needs from the outside, by role: Protocols whose docstrings are the contracts, and their values.

::

    client ──▶ Runs · Inbox · Blobs          worker ──▶ Leases ──▶ Journal.commit
                         └────────────── Store: one backend offering all of them ──────────────┘

Nothing here does anything; adapters keep these promises and the conformance suite proves it.
"""
