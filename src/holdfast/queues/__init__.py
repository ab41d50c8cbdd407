"""Queues: writes what `core.queue` decides.

    declare · settle ──▶ core.queue (which rules count) ──▶ store.change_queue (fenced by revision)
    pause · resume · set · reset ──▶ …

The store decides which runs a gate admits, inside a claim (`ports.queues`).
"""
