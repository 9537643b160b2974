"""Which flags repair the divergence, alone or together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bisector.core.case import WHOLE, Case
from bisector.core.judge import removed_fraction
from bisector.core.model import Candidate, Measurement, Outcome, ProbeResult
from bisector.core.search.sets import repairs_only

from ..asking import Denied
from ..study import Study, config_id, flag_of
from .catalogue import Flag
from .current import Setting

DEFAULT_CODE = "default"
SAME_PROGRAM = "the generated code is the default's"
# More sets of flags than this tell the user nothing; the search stops there and the result says so.
MOST_SETS = 4


@dataclass(frozen=True)
class FlagTrial:
    """One flag at its conservative value, everything else as the user has it.

    told_by: `run`, or `code` where the generated code is the default's, so that there was nothing to run.
    """

    flag: Flag
    default: Any
    result: ProbeResult
    removed_fraction: float
    role: str
    told_by: str = "run"


@dataclass
class FlagWalk:
    """The trials, the sets of several flags that repair together, and what was not tried and why.

    variables: flag -> the environment variable that torch reads its default from.
    """

    trials: list[FlagTrial] = field(default_factory=list)
    sets: list[tuple[str, ...]] = field(default_factory=list)
    set_results: list[ProbeResult] = field(default_factory=list)
    untried: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def fixes(self) -> list[FlagTrial]:
        return [t for t in self.trials if t.role == "fix"]

    def programs(self, default: Measurement) -> list[FlagTrial]:
        """The flags that act, of those that make one program the first."""
        acting = [t for t in self.trials if t.role != "unresolved" and _acts(t.result.measurement, default)]
        by_program = {program_of(t): t for t in reversed(acting)}
        return [t for t in acting if by_program[program_of(t)] is t]

    @property
    def necessary(self) -> list[str]:
        """Flags that repair, alone or as a member of a set."""
        return list(dict.fromkeys([t.flag.name for t in self.fixes] + [n for s in self.sets for n in s]))

    @property
    def suspected(self) -> frozenset[str]:
        """The kinds of decision that those flags govern."""
        return frozenset(k for t in self.trials if t.flag.name in self.necessary for k in t.flag.kinds)


def walk(
    study: Study,
    flags: list[Flag],
    current: Mapping[str, Setting],
    case: Case,
    default: Measurement,
    beside: Sequence[Mapping[str, Any]] = (),
) -> FlagWalk:
    """Try each flag alone on the case; where none repairs, the smallest sets that do.

    current: the flags around the call. default: what the case measures with all flags as they are.
    beside: what is asked at the same time (see `Study.probe_all`).
    """
    found = FlagWalk(variables={name: s.env for name, s in current.items() if s.env is not None})
    tried: list[Flag] = []
    for flag in flags:
        if flag.name not in current:
            found.untried[flag.name] = "this torch does not have it"
        elif current[flag.name].value == flag.conservative:
            found.untried[flag.name] = "conservative already"
        else:
            tried.append(flag)
            study.conservative[flag.name] = flag.conservative
    programs = _programs(study, tried, case)
    run: dict[str, Flag] = {}
    for flag in tried:
        if programs[flag.name] != DEFAULT_CODE:
            run.setdefault(programs[flag.name], flag)
    results = dict(zip(run, study.probe_all([(_alone(f), case) for f in run.values()], beside), strict=True))
    for flag in tried:
        result = results.get(programs[flag.name], ProbeResult(Outcome.FAIL, SAME_PROGRAM, default))
        share = removed_fraction(default, result.measurement, study.criterion_of(case))
        told_by = "code" if programs[flag.name] == DEFAULT_CODE else "run"
        now = current[flag.name].value
        found.trials.append(FlagTrial(flag, now, result, share, _role(result), told_by))
    if not found.fixes:
        _search_sets(study, found, case, default)
    return found


def _programs(study: Study, tried: Sequence[Flag], case: Case) -> dict[str, str]:
    """What each flag makes of the case: flags of equal programs need one run, and the default's needs none.

    A flag that acts outside the code, or whose code is not known, makes a program of its own.
    """
    plain, *codes = study.codes([Candidate(), *map(_alone, tried)], case)
    programs: dict[str, str] = {}
    for flag, code in zip(tried, codes, strict=True):
        told = code is not None and plain is not None and not flag.outside_code
        programs[flag.name] = (DEFAULT_CODE if code == plain else str(code)) if told else flag.name
    return programs


def holds_on_whole(study: Study, found: FlagWalk) -> bool:
    """Whether something that repaired a part of the inputs repairs all of them.

    The trials of what repaired the part then say what it does to the whole: a part can be too small to
    meet a loop's tail, say, and then more flags repair it.
    """
    winners = found.fixes
    results = study.probe_all([(_alone(t.flag), WHOLE) for t in winners])
    whole = dict(zip((t.flag.name for t in winners), results, strict=True))
    found.trials = [_on_whole(t, whole[t.flag.name]) if t.flag.name in whole else t for t in found.trials]
    return bool(found.fixes)


def _on_whole(trial: FlagTrial, result: ProbeResult) -> FlagTrial:
    share = 1.0 if result.outcome is Outcome.PASS else 0.0
    return replace(trial, result=result, role=_role(result), removed_fraction=share)


def _alone(flag: Flag) -> Candidate:
    return Candidate.with_flags({flag.name: flag.conservative})


def _role(result: ProbeResult) -> str:
    names = {Outcome.PASS: "fix", Outcome.FAIL: "no effect", Outcome.UNRESOLVED: "unresolved"}
    return names[result.outcome]


def program_of(trial: FlagTrial) -> str:
    """Equal for trials that made the same program."""
    return trial.flag.name if trial.flag.outside_code else trial.result.measurement.code or trial.flag.name


def _acts(measured: Measurement, default: Measurement) -> bool:
    """Whether a flag changed the generated code, or what it computes: a library's file is not in the code."""
    return not default.code or measured.code != default.code or measured.outputs != default.outputs


def _likely_first(
    acting: list[FlagTrial], default: Measurement, diverging: set[str]
) -> list[list[FlagTrial]]:
    """The flags that change how many elements of a diverging output differ, then all that change the program:
    of two causes that each flip elements of their own, each shows in the first."""

    def differing(measurement: Measurement) -> list[int]:
        return [o.n_diff for o in measurement.outputs if o.path in diverging]

    moving = [t for t in acting if differing(t.result.measurement) != differing(default)]
    return [moving, acting] if len(moving) < len(acting) else [acting]


def _search_sets(study: Study, found: FlagWalk, case: Case, default: Measurement) -> None:
    """Minimal sets among the flags that change the program at all, if all of them together repair."""
    acting = found.programs(default)
    denied = Denied(study, case)
    for flags in _likely_first(acting, default, {s.path for s in study.signatures}):
        elements = [config_id(t.flag.name) for t in flags]
        if len(elements) > 1 and denied(frozenset(elements)) is Outcome.PASS:
            break
    else:
        return
    for repair in repairs_only(elements, denied, MOST_SETS).repairs:
        if repair.confirmed:
            found.sets.append(tuple(flag_of(m) for m in repair.members))
            found.set_results.append(study.denied(frozenset(repair.members), case))
    necessary = {name for members in found.sets for name in members}
    found.trials = [replace(t, role="necessary") if t.flag.name in necessary else t for t in found.trials]
