"""One seed, told in full: for a person who looks for the cause."""

from __future__ import annotations

from tests.lab.sim.world import World


def tell(seed: int) -> int:
    """Prints what happened, line by line, and what is wrong."""
    result = World(seed, is_telling=True).run()
    print("\n".join(result.story))
    print(f"\nseed {seed}: {result.runs} runs, {result.seconds:.1f} virtual seconds, trace {result.trace}")
    print(f"faults: {', '.join(map(str, result.struck)) or 'none'}")
    for problem in result.problems:
        print(f"WRONG {problem}")
    return 1 if result.problems else 0
