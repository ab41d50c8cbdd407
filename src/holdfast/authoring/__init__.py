"""How users write workflows: three styles, one engine.

::

    script/    an `async def` or `def` function on a deterministic event loop
    machine/   typed states with saga compensation
    flow/      declared steps

Each style builds programs: pure deciders that turn events into commands. Nothing here does I/O, reads a clock or starts
a thread, and the styles do not import each other.
"""
