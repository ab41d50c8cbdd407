"""Batches: one run that conducts N runs of another workflow, its items.

plan what is stored: the plan, chunks of inputs, the progress of the batch
conducting  the script that starts items, up to a maximum at a time, and counts how they end
"""
