"""What a turn is and what follows from a journal, for everybody who writes one or reads one. Pure.

    rows ──▶ history.Load ──▶ replay.Replay ──▶ a program that stands where its journal ends
    inputs ──▶ program ──▶ commands ──▶ rules.decide ──▶ draft.Draft ──▶ commit.finish ──▶ ports.journal.Commit

No clock, no chance, no event loop and no store: time comes with what happens, and what has to be read is named and
given (`source` does that from a store). The engine and the client both stand on it; neither knows the other.
"""
