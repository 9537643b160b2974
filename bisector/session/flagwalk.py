"""Which flags repair the divergence, alone or together."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from io import StringIO
from typing import Any

import yaml
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from bisector.core.case import WHOLE
from bisector.core.judge import removed_fraction
from bisector.core.model import Candidate, Measurement, Outcome, ProbeResult
from bisector.core.search.sets import repairs_only
from bisector.errors import MissingTool

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


def live_catalogue() -> list[dict[str, Any]]:
    """The curated flags with their values in the installed torch, as rows; `value` is None where absent."""
    flags = catalogue()
    done = subprocess.run(
        [sys.executable, "-m", "bisector.inductor.flag_values", *(f.name for f in flags)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise MissingTool("torch cannot be imported; `numbisect doctor` says what is wrong")
    values = json.loads(done.stdout)
    return [
        {
            "name": f.name,
            "family": f.family,
            "conservative": f.conservative,
            "effect": f.effect,
            "present": f.name in values,
            "value": values.get(f.name),
        }
        for f in flags
    ]


def table(rows: Sequence[Mapping[str, Any]], width: int, color: bool) -> str:
    """The catalogue as text, a family at a time."""
    out = StringIO()
    console = Console(file=out, width=width, force_terminal=color, no_color=not color, highlight=False)
    for family in dict.fromkeys(row["family"] for row in rows):
        console.print(Text(family, style="bold"))
        for row in (r for r in rows if r["family"] == family):
            value = f"{row['value']!r}" if row["present"] else "absent in this torch"
            console.print(Text(f"  {row['name']} = {value}, conservative {row['conservative']!r}"))
            console.print(Padding(Text(row["effect"], style="dim"), (0, 0, 0, 6)))
    return out.getvalue()


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
    results = study.probe_all([(Candidate.with_flags({f.name: f.conservative}), WHOLE) for f in tried])
    for flag, result in zip(tried, results, strict=True):
        share = removed_fraction(default, result.measurement, study.criterion)
        found.trials.append(FlagTrial(flag, current[flag.name], result, share, _role(result)))
    if not found.fixes:
        _search_sets(study, found)
    return found


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
