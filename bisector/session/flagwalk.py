"""Which flags repair the divergence, alone or together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import yaml

from bisector.core.judge import removed_fraction
from bisector.core.model import Candidate, Measurement, Outcome, ProbeResult
from bisector.core.search.sets import repairs_only

from .study import Study

ABSENT = "absent"  # what the worker says of a flag that this torch does not have
# More sets of flags than this tell the user nothing; the search stops there and the result says so.
MOST_SETS = 4


@dataclass(frozen=True)
class Flag:
    """One line of configs/flags.yaml."""

    name: str
    family: str
    conservative: Any
    effect: str


@dataclass(frozen=True)
class FlagTrial:
    """One flag at its conservative value, everything else as the user has it."""

    flag: Flag
    default: Any
    result: ProbeResult
    removed_fraction: float
    role: str


@dataclass
class FlagWalk:
    """The trials, the sets of several flags that repair together, and what was not tried and why."""

    trials: list[FlagTrial] = field(default_factory=list)
    sets: list[tuple[str, ...]] = field(default_factory=list)
    set_results: list[ProbeResult] = field(default_factory=list)
    untried: dict[str, str] = field(default_factory=dict)

    @property
    def fixes(self) -> list[FlagTrial]:
        return [t for t in self.trials if t.role == "fix"]

    @property
    def necessary(self) -> list[str]:
        """Flags that repair, alone or as a member of a set."""
        return list(dict.fromkeys([t.flag.name for t in self.fixes] + [n for s in self.sets for n in s]))


def catalogue() -> list[Flag]:
    """The curated flags, in the order of the file."""
    text = resources.files("bisector.configs").joinpath("flags.yaml").read_text()
    return [Flag(**entry) for entry in yaml.safe_load(text)]


def walk(study: Study, flags: list[Flag], current: Mapping[str, Any], default: Measurement) -> FlagWalk:
    """Try each flag alone; where none repairs, the smallest sets that do."""
    found = FlagWalk()
    tried: list[Flag] = []
    for flag in flags:
        value = current.get(flag.name, ABSENT)
        if value == ABSENT:
            found.untried[flag.name] = "this torch does not have it"
        elif value == flag.conservative:
            found.untried[flag.name] = "conservative already"
        else:
            tried.append(flag)
            study.conservative[flag.name] = flag.conservative
    results = study.probe_all([_candidate({f.name: f.conservative}) for f in tried])
    for flag, result in zip(tried, results, strict=True):
        share = removed_fraction(default, result.measurement, study.criterion)
        found.trials.append(FlagTrial(flag, current[flag.name], result, share, _role(result)))
    if not found.fixes:
        _search_sets(study, found)
    return found


def _candidate(values: Mapping[str, Any]) -> tuple[Candidate, Any]:
    from bisector.core.case import WHOLE

    return Candidate.with_flags(values), WHOLE


def _role(result: ProbeResult) -> str:
    names = {Outcome.PASS: "fix", Outcome.FAIL: "no effect", Outcome.UNRESOLVED: "unresolved"}
    return names[result.outcome]


def _search_sets(study: Study, found: FlagWalk) -> None:
    """Minimal sets among the flags that compile alone, if all of them together repair."""
    sound = [t.flag for t in found.trials if t.role != "unresolved"]
    values = {f.name: f.conservative for f in sound}

    def denied(names: frozenset[str]) -> Outcome:
        return study.probe(Candidate.with_flags({n: values[n] for n in names})).outcome

    if len(sound) < 2 or denied(frozenset(values)) is not Outcome.PASS:
        return
    for repair in repairs_only(list(values), denied, MOST_SETS).repairs:
        if repair.confirmed:
            found.sets.append(repair.members)
            members = {n: values[n] for n in repair.members}
            found.set_results.append(study.probe(Candidate.with_flags(members)))
    necessary = {name for members in found.sets for name in members}
    found.trials = [
        FlagTrial(t.flag, t.default, t.result, t.removed_fraction, "necessary")
        if t.flag.name in necessary
        else t
        for t in found.trials
    ]
