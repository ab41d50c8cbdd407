"""The listeners of facts (`ports.telemetry`): the log, and the hooks of an app.

::

    listeners.py  tells every listener that wants a fact; what one raises stops neither the others nor the caller
    logs.py       Python's logging
    hooks.py      a user's `Hook`
"""
