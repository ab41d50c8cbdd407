"""Batches: one run that conducts N runs of another workflow, its items.

plan        what is written down: the plan, chunks of inputs, where the batch stands
conducting  the script that starts items, up to a maximum at a time, and counts how they end
"""
