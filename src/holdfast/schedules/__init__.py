"""Schedules and a store: writes what the core decides, so that every slot gets its run.

::

    core.schedule.advance ──▶ Move(runs, messages, next_at) ──▶ store.move_schedule, fenced by revision

Workers fire what is due (`due`), and declare what their app declares; clients change schedules by hand. Both do it by
moving a row from one revision to the next (`book`).
"""
