"""Batches: one run that conducts N runs of another workflow, its items.

batch_plan    what is stored: the plan, chunks of inputs, the progress of the batch
batch_inputs  inputs cut into chunks, by a client and by a workflow alike
conductor     the script that starts items, up to a maximum at a time, and counts how they end
turns         whose turn it is, breadth-first
child_batch   `await batch(…)` in a workflow: a batch as its child; `blocking_batch` for a `def` workflow
"""
