"""The machinery that advances a run by one turn. It has no loops; the worker has.

::

    loading ──▶ session ──▶ program.activate ──▶ turns ──▶ committer ──▶ store.commit
                   ▲  └──▶ bodies (async · thread · process)                  │
                   └──────────────── outcomes · wheel · inbox ◀───────────────┘
"""
