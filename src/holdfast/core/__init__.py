"""The deciding part of Holdfast: pure, without I/O, clock, randomness or threads.

::

    events ──▶ turn (a journal row) ──▶ run (the fold) ──▶ doing · status · step · limits
    commands ◀── program ◀── passes (where the running pass begins)

Nothing here knows a store, a worker or asyncio. Time, randomness and ids are arguments.
"""
