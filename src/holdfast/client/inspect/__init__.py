"""Questions that people ask about a store, answered once for every client: the command line prints the answers, the
HTTP API serialises them.

::

    lookup.py     a run by its id, or a hint
    story.py      everything that is known of one run
    objects.py    runs, events, entries and stories as programs read them
    findings.py   what is wrong with store, workers and runs
    managers.py   a lease manager: who answers for it, who holds what, where it and the store disagree
    room.py       where the room goes, and what a sweep takes
"""
