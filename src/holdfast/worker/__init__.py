"""The only package with loops: claiming, beating, watching, stopping. Each loop is thin and owned by one `Worker`.

::

    claiming ──▶ engine.take_on        heartbeat (own thread) ──▶ store: one row keeps all runs
    watching ──▶ hints, held runs      watchdog (own thread) ──▶ says what blocks the event loop
"""
