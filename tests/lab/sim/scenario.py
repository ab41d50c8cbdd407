"""From a seed to a scenario: which workers there are, which runs are started, and who does what to them, and when.

Swarm testing: each seed draws which verbs its plans may use and how eager each actor is, so that rare mixtures come up.
`expected` is the model: what a plan gives, whatever happens to the workers.
"""

# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from holdfast.core.schedule import Missed, Overlap
from tests.lab.sim.workflows import Node

VERBS = (
    *("step", "sequence", "parallel", "sleep", "signal", "patient", "child", "once", "race", "saga", "big", "poison"),
    *("each", "topic", "publish", "talk", "detached", "guard", "stubborn", "flow", "hasty", "brief", "group"),
    "errand",
)
NESTING = frozenset({"sequence", "parallel", "group", "child", "saga", "detached", "stubborn", "hasty", "errand"})
NOT_INSIDE = {"sequence": set[str](), "parallel": {"signal", "patient", "guard"}}
"""What the model could not foresee there: who takes which signal, and what a cancelled `gather` leaves behind."""
MOST_RUMOURS = 40
OF_A_DEADLINE = ("DeadlineExceeded", "StepFailed", "ExceptionGroup")
"""How a run with little time may fail: also because a retry would come too late, be it in a group."""
ANYTHING = object()
"""What the model does not decide."""


@dataclass(frozen=True)
class Among:
    """One of these: who was faster decides."""

    options: tuple[Any, ...]


@dataclass
class RunPlan:
    """One run, and what is done to it. Times are virtual seconds after the beginning."""

    id: str
    plan: list[Node]
    rounds: int = 0
    parcels: int = 0
    flowers: int = 0
    """It is a flow, of so many items."""
    items: int = 0
    """It is a batch of so many runs."""
    in_rounds: bool = False
    """A batch that goes breadth-first."""
    deadline: float = 0.0
    starts_at: float = 0.0
    starters: int = 1
    key: str = ""
    delay: float = 0.0
    signals: list[float] = field(default_factory=list[float])
    rumours: list[float] = field(default_factory=list[float])
    """When its client publishes, to whoever waits."""
    questions: list[float] = field(default_factory=list[float])
    """When its client asks it something."""
    cancels_at: float = -1.0
    cancels_again_at: float = -1.0
    calls_off_at: list[float] = field(default_factory=list[float])
    """When its client cancels an errand of it, and not the run itself."""
    kills_at: float = -1.0
    pauses_at: float = -1.0
    is_read: bool = False
    """Its client reads what it sends to a stream, as it comes."""
    is_opened: bool = False
    """Its first signal comes with its start."""
    share: str = ""
    """What it competes as at the gate of its queue."""

    @property
    def opening(self) -> str:
        """The id of the signal that comes with its start."""
        return f"{self.id} opening"

    @property
    def is_disturbed(self) -> bool:
        """Whether somebody may end it before it has."""
        return self.cancels_at >= 0 or self.kills_at >= 0


@dataclass
class SchedulePlan:
    """One schedule that every worker declares. Times are seconds after the beginning."""

    name: str
    plan: list[Node]
    period: int = 1
    is_cron: bool = False
    overlap: Overlap = "skip"
    missed: Missed = "last"
    catch_up: int = 3600
    jitter: float = 0.0
    lasts: int = 5
    times: int = 0
    """How often it starts a run; 0: any number."""
    triggers: list[float] = field(default_factory=list[float])
    pauses_at: float = -1.0


@dataclass
class Scenario:
    """Everything but the faults."""

    workers: int
    slots: int
    runs: list[RunPlan]
    has_grants: bool = False
    max_claims: int = 20
    snapshot_every: int = 0
    compact_after: int | None = None
    keep: float | None = None
    hints: str = "all"
    inserts_at: int = 0
    distance: float = 0.0
    """Seconds to the lease manager at most, each way."""
    losses: float = 0.0
    """The share of its answers that get lost."""
    knocks: float = 0.0
    """How often a signal arrives just before an end."""
    at_once: int = 0
    """How many runs may have begun and not ended; 0: any number. Children ride on the places of their parents."""
    share_at_once: int = 0
    schedules: list[SchedulePlan] = field(default_factory=list[SchedulePlan])


def draw(rng: random.Random) -> Scenario:
    """A scenario by chance."""
    verbs = [verb for verb in VERBS if rng.random() < 0.45] or ["step"]
    if rng.random() > 0.2 and "big" in verbs:
        verbs.remove("big")  # blobs are slow
    if rng.random() > 0.5 and "poison" in verbs:
        verbs.remove("poison")
    count = min(20, 1 + int(rng.expovariate(0.4)))
    scenario = Scenario(
        workers=rng.choice((1, 2, 2, 2, 3, 3, 4, 5)),
        slots=rng.choice((1, 2, 4, 100, 100)),
        runs=[draw_run(rng, number, verbs) for number in range(count)],
        has_grants=rng.random() < 0.12,
        max_claims=rng.choice((20, 20, 20)),
        snapshot_every=rng.choice((0, 0, 3, 8)),
        compact_after=rng.choice((None, None, 5, 10)),
        keep=rng.choice((None, None, None, 2.0)),
        hints=rng.choice(("all", "all", "lossy", "none")),
        inserts_at=rng.randrange(3),
        distance=rng.choice((0.0, 0.01, 0.1, 0.3)),
        losses=rng.choice((0.0, 0.0, 0.1)),
    )
    _draw_endings(rng, scenario)
    _draw_streams(rng, scenario)
    _draw_queue(rng, scenario, verbs)
    _draw_questions(rng, scenario)
    _draw_limits(rng, scenario)
    _draw_batches(rng, scenario)
    _draw_openings(rng, scenario)
    _draw_conversations(rng, scenario)
    return scenario


def _draw_queue(rng: random.Random, scenario: Scenario, verbs: list[str]) -> None:
    """The rules of the queue. Drawn last. Runs that wait for others must not hold the places that those need."""
    if rng.random() < 0.3 and not {"topic", "publish", "talk"} & set(verbs):
        scenario.at_once = rng.choice((1, 2, 3, 8))
        scenario.share_at_once = rng.choice((0, 0, 1, 2))
    if scenario.at_once or rng.random() < 0.1:
        for run in scenario.runs:
            run.share = rng.choice(("", "a", "b", "c"))


def _draw_endings(rng: random.Random, scenario: Scenario) -> None:
    """Who ends with bodies in flight, and how often an end is refused. Drawn last: earlier seeds stay what they are."""
    scenario.knocks = rng.choice((0.0, 0.5, 1.0))
    for number, run in enumerate(scenario.runs):
        is_script = run.plan and not (run.rounds or run.items or waits_of(run.plan))
        if is_script and rng.random() < 0.25:
            times = (rng.choice((0, 5, 40, 200, 600)), rng.choice((1, 30, 300)), rng.choice((0, 0, 20, 300, 2500)))
            run.plan.append(["gamble", f"{number}.last", *times])
            run.signals = [rng.random() * 2] if rng.random() < 0.3 else []


def _draw_streams(rng: random.Random, scenario: Scenario) -> None:
    """Who sends to a stream, and whether somebody reads it meanwhile. Drawn last, as above."""
    for number, run in enumerate(scenario.runs):
        if run.plan and not run.items and rng.random() < 0.2:
            times = (rng.choice((1, 3, 8, 20)), rng.choice((0, 0, 3, 20, 60)), rng.choice((0, 0, 0, 1, 2)))
            run.plan.insert(0, ["tell", f"{number}.told", *times])
            run.is_read = rng.random() < 0.4


def _draw_questions(rng: random.Random, scenario: Scenario) -> None:
    """Who is asked something, and when. Drawn last, likewise."""
    for run in scenario.runs:
        if run.plan and not run.items and not run.key and rng.random() < 0.3:
            run.questions = sorted(rng.random() * 3 for _ in range(rng.randint(1, 5)))


def _draw_limits(rng: random.Random, scenario: Scenario) -> None:
    """Who has steps under limits. Drawn last, as above."""
    for number, run in enumerate(scenario.runs):
        if run.plan and not run.items and rng.random() < 0.25:
            how = [rng.choice("ab"), rng.choice((0, 5, 40, 200)), rng.choice((0, 0, 0, 1))]
            run.plan.insert(0, ["squeeze", how, *(f"{number}.squeezed.{each}" for each in range(rng.randint(1, 4)))])


def _draw_batches(rng: random.Random, scenario: Scenario) -> None:
    """Who makes a batch of its own, and who sets an attribute. Drawn last, as above."""
    for number, run in enumerate(scenario.runs):
        if run.plan and not run.items and rng.random() < 0.15:
            label, count = f"{number}.many", rng.choice((0, 1, 2, 3, 5))
            items = [[f"{label}.{index}", rng.choice((0, 1, 30, 200))] for index in range(count)]
            how = [rng.choice((0, 0, 0, 30, 300)), rng.randint(1, 3), rng.choice(("depth", "depth", "breadth"))]
            run.plan.insert(0, ["many", *how, *items])
        if run.plan and rng.random() < 0.2:
            run.plan.insert(rng.randint(0, 1), ["mark", f"{number}.{rng.randrange(3)}"])


def _draw_openings(rng: random.Random, scenario: Scenario) -> None:
    """Whose first signal comes with the start. Drawn last, as above."""
    for run in scenario.runs:
        if run.signals and not run.items and rng.random() < 0.4:
            run.is_opened, run.signals = True, run.signals[1:]


def _draw_conversations(rng: random.Random, scenario: Scenario) -> None:
    """Who has a step with a list that grows. Drawn last, as above."""
    for number, run in enumerate(scenario.runs):
        if run.plan and not run.items and rng.random() < 0.15:
            how = [rng.choice((2, 3, 5, 8)), rng.choice((20, 60, 200, 600)), rng.choice((0, 0, 0, 1))]
            node = ["converse", f"{number}.said", *how]
            run.plan.insert(rng.randint(0, 1), ["saga", node] if rng.random() < 0.3 else node)


def draw_run(rng: random.Random, number: int, verbs: list[str]) -> RunPlan:
    """One run by chance, and what is done to it."""
    size = rng.choice((1, 2, 2, 3, 3, 4, 6))
    plan = [draw_node(rng, verbs, 0, f"{number}.{index}") for index in range(size)]
    run = RunPlan(f"run-{number}", plan, starts_at=rng.random())
    _draw_kind(rng, run)
    if rng.random() < 0.15:
        run.starters = rng.randint(2, 3)
        run.key = f"key-{number}" if rng.random() < 0.6 else ""
    if rng.random() < 0.1:
        run.delay = rng.random() * 2
    run.signals = sorted(rng.random() * 3 for _ in range(waits_of(run.plan)))
    if "topic" in verbs:
        run.rumours = sorted(rng.random() * 3 for _ in range(rng.randint(0, 3)))
    if "errand" in verbs:
        run.calls_off_at = sorted(rng.random() * 2 for _ in range(rng.randint(0, 2)))
    if rng.random() < 0.06:
        run.deadline = rng.choice((0.3, 1.0, 3.0, 30.0))
    if rng.random() < (0.4 if any(node[0] in {"guard", "detached"} for node in run.plan) else 0.12):
        run.cancels_at = rng.random() * 2
        if rng.random() < 0.7:
            run.cancels_again_at = run.cancels_at + rng.choice((0.01, 0.1, 0.3))
    elif rng.random() < 0.04:
        run.kills_at = rng.random() * 2
    elif rng.random() < 0.06:
        run.pauses_at = rng.random() * 2
    return run


def _draw_kind(rng: random.Random, run: RunPlan) -> None:
    """Most runs are scripts."""
    chance = rng.random()
    if chance < 0.1:
        run.parcels = rng.randint(1, 3)
    elif chance < 0.15:
        run.flowers = rng.randint(1, 4)
    elif chance < 0.2:
        run.items = rng.randint(1, 5)
        run.in_rounds = chance < 0.175
        run.plan = run.plan[:2] if not waits_of(run.plan[:2]) else [["step", run.id, 5, 1]]
        return
    elif chance < 0.28 and not waits_of(run.plan):
        run.rounds = rng.randint(1, 2)
        return
    else:
        return
    run.plan = []


def draw_node(rng: random.Random, verbs: list[str], depth: int, label: str) -> Node:
    """One node of a plan."""
    usable = [verb for verb in verbs if depth < 2 or verb not in NESTING]
    verb = rng.choice(usable) if usable else "step"
    milliseconds = rng.choice((0, 0, 1, 5, 40, 200, 600))
    match verb:
        case "step":
            return ["step", label, milliseconds, rng.choice((0, 0, 0, 1, 2))]
        case _ if verb in NESTING:
            inside = [each for each in verbs if each not in NOT_INSIDE.get(verb, {"signal", "patient"})]
            count = rng.randint(1, 3)
            nodes = [draw_node(rng, inside, depth + 1, f"{label}.{index}") for index in range(count)]
            return [verb, rng.randint(0, 2), *nodes] if verb == "stubborn" else [verb, *nodes]
        case "sleep":
            return ["sleep", rng.choice((1, 30, 300, 1300, 2500))]
        case "patient":
            return ["patient", rng.choice((50, 800, 2500))]
        case "once":
            return ["once", label, milliseconds]
        case "race":
            return ["race", rng.choice((1, 30, 500)), label, milliseconds, 0]
        case "big" | "poison":
            return [verb, label]
        case _:
            return _draw_more(rng, verb, label, milliseconds)


def _draw_more(rng: random.Random, verb: str, label: str, milliseconds: int) -> Node:
    match verb:
        case "each":
            items = [[f"{label}.{index}", rng.choice((0, 1, 30))] for index in range(rng.randint(0, 5))]
            return ["each", rng.randint(1, 3), *items]
        case "topic":
            return ["topic", rng.choice((50, 800, 2500))]
        case "publish" | "talk":
            return [verb, rng.randrange(MOST_RUMOURS)]
        case "guard":
            return ["guard", label, rng.choice((0, 40, 600, 1500)), rng.choice((0, 5, 300, 300, 4000))]
        case "flow":
            return ["flow", label, rng.randint(0, 3)]
        case "brief":
            return ["brief", label, milliseconds]
        case _:
            return ["signal"]


def waits_of(plan: list[Node]) -> int:
    """How many signals it takes, if all of them come in time."""
    count = 0
    for node in plan:
        if node[0] in {"signal", "patient"}:
            count += 1
        elif node[0] == "sequence":
            count += waits_of(node[1:])
    return count


def has_timeouts(plan: list[Node]) -> bool:
    """Whether a wait may end without its signal: then nobody knows which wait gets which."""
    return any(node[0] == "patient" or (node[0] == "sequence" and has_timeouts(node[1:])) for node in plan)


def expected(run: RunPlan) -> Any:
    """What the run gives."""
    if run.parcels:
        return {"Sent": {"cents": 10 * run.parcels + 2}}
    if run.flowers:
        return bunch(run.id, run.flowers)
    if run.items:
        return {"total": run.items, "completed": run.items, "failed": 0, "cancelled": 0, "running": 0}
    numbers = iter(range(1000))
    return [model(node, None if has_timeouts(run.plan) else numbers) for node in run.plan]


def model(node: Node, numbers: Any) -> Any:
    """What one node gives; `numbers` are the signals, None if nobody knows who gets which."""
    verb, rest = node[0], node[1:]
    match verb:
        case "step" | "big" | "poison" | "tell" | "converse":
            return rest[0]
        case "sequence" | "parallel" | "group" | "child":
            return [model(each, numbers) for each in rest]
        case "sleep":
            return None
        case "signal" if numbers is not None:
            return next(numbers)
        case "saga":
            return "undone"
        case _:
            return _model_more(verb, rest)


def _model_more(verb: str, rest: list[Any]) -> Any:
    match verb:
        case "each":
            return [label for label, _ in rest[1:]]
        case "squeeze":
            return rest[1:]
        case "many":
            given: list[Any] = [label if rest[2] == "depth" else [label, f"{label}'"] for label, _ in rest[3:]]
            return Among(("late", given)) if rest[0] else given
        case "topic":
            return Among((-1, *range(MOST_RUMOURS)))
        case "publish" | "detached" | "mark":
            return None
        case "talk":
            return [rest[0]]
        case "guard":
            return rest[0]
        case "stubborn":
            return [model(each, None) for each in rest[1:]]
        case "flow":
            return bunch(rest[0], rest[1])
        case "hasty":
            return Among((*OF_A_DEADLINE, [model(each, None) for each in rest]))
        case "errand":
            return Among(("cancelled", [model(each, None) for each in rest]))
        case "brief":
            return Among((rest[0], "late"))
        case "gamble":
            return Among((rest[0], "unknown", "left"))
        case "once":
            return Among((rest[0], "unknown"))
        case "race":
            return Among((rest[1], "late"))
        case _:
            return ANYTHING


def bunch(label: str, count: int) -> Any:
    """What the flow gives."""
    tied = [f"<{label}-{number}>" for number in range(count)]
    return {"tied": tied, "left": f"<{label}>", "bound": {"knot": f"<<{label}>>"}}


def agrees(found: Any, wanted: Any) -> bool:
    """Whether a result is what the model says."""
    if wanted is ANYTHING:
        return True
    if isinstance(wanted, Among):
        return any(agrees(found, option) for option in wanted.options)
    if isinstance(wanted, list) and isinstance(found, list):
        return len(found) == len(wanted) and all(map(agrees, found, wanted))
    return bool(found == wanted)
