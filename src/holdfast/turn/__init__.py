"""Turns and journals, for all code that writes or reads them. Pure.

    rows ──▶ history.Load ──▶ replay.Replay ──▶ a program that stands where its journal ends
    inputs ──▶ program ──▶ commands ──▶ rules.decide ──▶ draft.Draft ──▶ commit.finish ──▶ ports.journal.Commit

No clock, no randomness, no event loop and no store: time comes with the inputs, and code here names what must be read
and is given it (`source` does that from a store). The engine and the client both build on it; neither knows the other.
"""
