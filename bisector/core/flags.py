"""The curated flags, what each does to a divergence, and what makes two settings of them differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .endings import Ending
from .kinds import KINDS
from .model import Json, Measurement, ProbeResult
from .outcome import Outcome

_PULL = "https://github.com/pytorch/pytorch/pull/"
_BLOB = "https://github.com/pytorch/pytorch/blob/v{}/{}"
_READ_AT = "2.13.0"  # the release whose files the catalogue refers to where it names no other


@dataclass(frozen=True)
class Flag:
    """One entry of configs/flags.yaml, which says what each field means."""

    name: str
    family: str
    conservative: Any
    effect: str
    backend: str
    since: str
    reference: str
    kinds: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()
    device: str | None = None
    outside_code: bool = False
    performance: bool = False

    @property
    def of_script(self) -> bool:
        """Whether it governs nothing but what is decided where a whole script runs."""
        return bool(self.kinds) and all(KINDS[kind].rungs for kind in self.kinds)

    @property
    def url(self) -> str:
        """The public page that the reference stands for."""
        if self.reference.startswith("#"):
            return _PULL + self.reference[1:]
        release, colon, path = self.reference.partition(":")
        return _BLOB.format(release, path) if colon else _BLOB.format(_READ_AT, self.reference)


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

Settings = Mapping[str, Any]  # flag -> value


@dataclass(frozen=True)
class Contrast:
    """What makes the difference between two configurations.

    name: of the one that the target's own was compared with. target: FAIL where the target's own diverges,
    PASS where it is the other that does.
    repairs: smallest sets of settings that make the diverging configuration agree, as the agreeing one has
    them. causes: smallest sets that make the agreeing one diverge, as the diverging one has them.
    unknown: why there are none, or might be more; None if all were found.
    """

    name: str
    target: Outcome
    repairs: tuple[Settings, ...] = ()
    causes: tuple[Settings, ...] = ()
    unknown: Ending | None = None
