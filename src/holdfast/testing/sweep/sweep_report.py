"""The findings of a sweep, for people and for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.core.plurals import counted


class SweepFailed(AssertionError):
    """A workflow does not survive a disturbance of a sweep; the message is the whole report."""

    def __init__(self, report: SweepReport) -> None:
        super().__init__(str(report))
        self.report = report


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: what, at which point it was first seen, and what to do."""

    what: str
    advice: str = ""
    step: str = ""
    """The step at whose body it was seen; empty if it is not about one."""
    point: str = ""
    """Where it was first seen, as `only=` takes it; empty: without any disturbance."""
    meaning: str = ""
    details: Sequence[str] = ()
    journal: Sequence[str] = ()
    """The journal up to there."""
    times: int = 1

    def lines(self, call: str) -> list[str]:
        said = [f"{self.what}"]
        if self.point:
            said.append(f"  when: {self.point}: {self.meaning}" if self.meaning else f"  when: {self.point}")
            if self.times > 1:
                said.append(f"        and at {counted(self.times - 1, 'more point')}")
        else:
            said.append("  when: always, nothing was disturbed")
        said += [f"  {line}" for line in self.details]
        if self.advice:
            said.append(f"  what to do: {self.advice}")
        if self.journal:
            said += ["  the journal up to there:", *(f"    {line}" for line in self.journal)]
        if self.point:
            said.append(f'  again: {call.removesuffix(")")}, only="{self.point}")')
        return said


@dataclass(slots=True)
class SweepReport:
    """The outcome of `crash_sweep`."""

    call: str
    points: list[str] = field(default_factory=list[str])
    """The disturbances that were tried, each as `only=` takes it."""
    findings: list[Finding] = field(default_factory=list[Finding])
    skipped: list[str] = field(default_factory=list[str])
    """What could not be tried, and why."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def unsafe_steps(self) -> list[str]:
        """Names of the steps that something was found at."""
        return list(dict.fromkeys(finding.step for finding in self.findings if finding.step))

    def assert_ok(self) -> None:
        """Raises `SweepFailed`, an AssertionError with the whole report, if something was found."""
        if self.findings:
            raise SweepFailed(self)

    def add(self, finding: Finding) -> None:
        """Adds a finding; a repeated one is only counted."""
        for number, known in enumerate(self.findings):
            if (known.what, known.step) == (finding.what, finding.step):
                self.findings[number] = _once_more(known)
                return
        self.findings.append(finding)

    def __str__(self) -> str:
        head = (
            f"{self.call}: {counted(len(self.points), 'point')} tried, {counted(len(self.findings), 'problem')} found"
        )
        parts = [f"{number}. " + "\n   ".join(x.lines(self.call)) for number, x in enumerate(self.findings, 1)]
        parts += [f"not tried: {text}" for text in self.skipped]
        return "\n\n".join([head, *parts])


def _once_more(finding: Finding) -> Finding:
    return Finding(
        finding.what,
        finding.advice,
        finding.step,
        finding.point,
        finding.meaning,
        finding.details,
        finding.journal,
        finding.times + 1,
    )
