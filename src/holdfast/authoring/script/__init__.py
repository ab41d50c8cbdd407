"""Scripts: workflows written as ordinary Python functions, async or sync.

::

    steps · workflows · channels · verbs      what authors write
        └── calls ──▶ program ◀── replaying   what they ask for, compared with the journal
                        └── loop              the deterministic asyncio loop underneath (sync bodies: bridge)
"""
