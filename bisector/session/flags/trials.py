"""What a walk over flags found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bisector.core.model import Json, Measurement, ProbeResult

from .catalogue import Flag


@dataclass(frozen=True)
class FlagTrial:
    """One flag at one value, everything else as the user has it.

    default: the value around the call. told_by: `run`, or `code` where the generated code is the default's,
    so that there was nothing to run. grown: how many times as large the divergence is, None if that has no
    meaning.
    """

    flag: Flag
    value: Any
    default: Any
    result: ProbeResult
    removed_fraction: float
    role: str
    told_by: str = "run"
    grown: float | None = None

    @property
    def program(self) -> str:
        """Equal for trials that made the same program."""
        own = f"{self.flag.name}={self.value}"
        return own if self.flag.outside_code else self.result.measurement.code or own

    def acts(self, default: Measurement) -> bool:
        """Whether it changed the code, or what that computes: a library's file is not in the code."""
        measured = self.result.measurement
        return not default.code or measured.code != default.code or measured.outputs != default.outputs


@dataclass(frozen=True)
class FlagWalk:
    """The trials, the sets of several flags that repair together, and what was not tried and why.

    trials: each flag at its conservative value. milder: flags that act, at other values than that.
    sets, set_results: flags that repair together, and what the compile with them gives.
    variables: flag -> the environment variable that torch reads its default from.
    conservative: the values that were tried, and that a `config` decision stands for.
    """

    trials: tuple[FlagTrial, ...] = ()
    milder: tuple[FlagTrial, ...] = ()
    sets: tuple[tuple[str, ...], ...] = ()
    set_results: tuple[ProbeResult, ...] = ()
    untried: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    conservative: Mapping[str, Json] = field(default_factory=dict)

    @property
    def fixes(self) -> list[FlagTrial]:
        """The flags that repair alone, at their conservative values."""
        return [t for t in self.trials if t.role == "fix"]

    @property
    def repairing(self) -> list[str]:
        """The flags that repair alone; where none does, the sets that do, each in one text."""
        return [t.flag.name for t in self.fixes] or [" + ".join(names) for names in self.sets]

    @property
    def repairs_something(self) -> bool:
        """Whether any setting, alone or with others, repairs."""
        return bool(self.sets) or any(t.role == "fix" for t in (*self.trials, *self.milder))

    def programs(self, default: Measurement) -> list[FlagTrial]:
        """The flags that act, of those that make one program the first."""
        acting = [t for t in self.trials if t.role != "unresolved" and t.acts(default)]
        by_program = {t.program: t for t in reversed(acting)}
        return [t for t in acting if by_program[t.program] is t]

    @property
    def necessary(self) -> list[str]:
        """Flags that repair, alone or as a member of a set."""
        return list(dict.fromkeys([t.flag.name for t in self.fixes] + [n for s in self.sets for n in s]))

    @property
    def suspected(self) -> frozenset[str]:
        """The kinds of decision that those flags govern."""
        return frozenset(k for t in self.trials if t.flag.name in self.necessary for k in t.flag.kinds)
