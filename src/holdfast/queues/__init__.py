"""Queues: writes what `core.queue` decides.

    declare · settle ──▶ core.queue (which rules count) ──▶ store.change_queue (fenced by revision)
    pause · resume · set · reset ──▶ …

Who is let in at a gate is decided by the store, inside a claim (`ports.queues`).
"""
