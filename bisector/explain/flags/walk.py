"""Which flags repair the divergence, alone or together: the walk and what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from bisector.core.case import WHOLE, Case
from bisector.core.flags import Flag, FlagTrial, FlagWalk
from bisector.core.judge import grown, removed_fraction
from bisector.core.model import Candidate, Measurement, ProbeResult
from bisector.core.outcome import Outcome
from bisector.core.probe_reasons import SameCode
from bisector.core.protocol import Setting
from bisector.core.search.sets import repairs_only

from ..questions import Denied
from ..rounds import in_rounds
from ..study import Study, config_id, flag_of

DEFAULT_CODE = "default"
# More sets of flags than this tell the user nothing; the search stops there and the result says so.
MOST_SETS = 4
MATTERS = 0.05  # of the divergence; less comes and goes with any rounding that moves


def walk(
    study: Study,
    flags: list[Flag],
    current: Mapping[str, Setting],
    case: Case,
    default: Measurement,
) -> FlagWalk:
    """Try each flag alone on the case; where none repairs, the smallest sets that do.

    A flag that carries a part of the divergence is tried at its other values too; where nothing repairs, each
    that acts is.
    current: the flags around the call. default: what the case measures with all flags as they are.
    """
    tried = [
        Turned(flag, flag.conservative, current[flag.name].value)
        for flag in flags
        if flag.name in current and current[flag.name].value != flag.conservative
    ]
    conservative = {turned.flag.name: turned.value for turned in tried}
    study = replace(study, conservative=conservative)
    walking = _Walking(study, case, default)
    trials = walking.try_all(tried)
    found = FlagWalk(
        trials,
        walking.try_all(_milder([t for t in trials if _matters(t)])),
        variables={name: s.env for name, s in current.items() if s.env is not None},
        conservative=conservative,
    )
    if not found.fixes:
        found = _with_sets(study, found, case, default)
    if not (found.necessary or found.milder):
        found = replace(found, milder=walking.try_all(_milder([t for t in trials if t.acts(default)])))
    return found


class Turned(NamedTuple):
    """A flag that is set to a value; before: the one that it has."""

    flag: Flag
    value: Any
    before: Any

    @property
    def candidate(self) -> Candidate:
        return Candidate.with_flags({self.flag.name: self.value})


def _matters(trial: FlagTrial) -> bool:
    """Whether the flag carries a part of the divergence that is worth more probes."""
    return trial.role == "fix" or trial.removed_fraction >= MATTERS or (trial.grown or 0.0) >= 1 + MATTERS


def _milder(trials: Sequence[FlagTrial]) -> list[Turned]:
    """The flags at their other values."""
    values = [(t, v) for t in trials for v in t.flag.values]
    return [Turned(t.flag, v, t.default) for t, v in values if v not in (t.value, t.default)]


@dataclass
class _Walking:
    """default: what the case measures with all flags as they are. results: what ran, by program."""

    study: Study
    case: Case
    default: Measurement
    results: dict[str, ProbeResult] = field(default_factory=dict)

    def try_all(self, tried: Sequence[Turned]) -> tuple[FlagTrial, ...]:
        """One trial for each; of equal programs one is run, and of the default's none."""
        if not tried:
            return ()
        self.results[DEFAULT_CODE] = ProbeResult(Outcome.FAIL, SameCode(), self.default)
        programs = self._programs(tried)
        run: dict[str, tuple[Candidate, Case]] = {}
        for program, turned in zip(programs, tried, strict=True):
            if program not in self.results:
                run.setdefault(program, (turned.candidate, self.case))
        self.results |= zip(run, self.study.probe_all(list(run.values())), strict=True)
        return tuple(self._trial(t, p) for t, p in zip(tried, programs, strict=True))

    def _programs(self, tried: Sequence[Turned]) -> list[str]:
        """What each makes of the case: what the default compile does not read makes the same. What acts
        outside the code, or has code that is not known, makes a program of its own."""
        names = [t.flag.name for t in tried if not t.flag.outside_code]
        (plain,) = self.study.codes([Candidate()], self.case, names)
        read = set(names) - plain.unread if plain.digest is not None else set()
        readers = [t for t in tried if t.flag.name in read]
        codes = self.study.codes([t.candidate for t in readers], self.case)
        digests = {turned: code.digest for turned, code in zip(readers, codes, strict=True)}
        programs = []
        for turned in tried:
            digest = digests.get(turned)
            own = digest or f"{turned.flag.name}={turned.value}"
            same = turned.flag.name in plain.unread or (digest is not None and digest == plain.digest)
            programs.append(DEFAULT_CODE if same else own)
        return programs

    def _trial(self, turned: Turned, program: str) -> FlagTrial:
        result, criterion = self.results[program], self.study.criterion_of(self.case)
        return FlagTrial(
            *turned,
            result,
            removed_fraction(self.default, result.measurement, criterion),
            _role(result),
            "code" if program == DEFAULT_CODE else "run",
            grown(self.default, result.measurement, criterion),
        )


def on_whole(study: Study, found: FlagWalk) -> FlagWalk:
    """The walk over a part of the whole, with what repaired the part tried on all of it.

    The trials and sets then say what they do to the whole: a part can be too small to meet a loop's tail,
    say, and then more flags repair it. Of equal programs one is run.
    """
    study = replace(study, conservative=found.conservative)
    winners = {_key(t): t for t in (*found.trials, *found.milder) if t.role == "fix"}
    by_program = {t.program: Turned(t.flag, t.value, t.default).candidate for t in winners.values()}
    sets = [study.deny(frozenset(map(config_id, names))) for names in found.sets]
    results = study.probe_all([(c, WHOLE) for c in (*by_program.values(), *sets)])
    whole = dict(zip(by_program, results[: len(by_program)], strict=True))

    def judged(trial: FlagTrial) -> FlagTrial:
        if _key(trial) not in winners:
            return trial
        result = whole[trial.program]
        share = 1.0 if result.outcome is Outcome.PASS else 0.0
        return replace(trial, result=result, role=_role(result), removed_fraction=share)

    held = zip(found.sets, results[len(by_program) :], strict=True)
    kept = [(names, result) for names, result in held if result.outcome is Outcome.PASS]
    return replace(
        found,
        trials=tuple(map(judged, found.trials)),
        milder=tuple(map(judged, found.milder)),
        sets=tuple(names for names, _ in kept),
        set_results=tuple(result for _, result in kept),
    )


def _key(trial: FlagTrial) -> tuple[str, str]:
    return trial.flag.name, repr(trial.value)


def _role(result: ProbeResult) -> str:
    names = {Outcome.PASS: "fix", Outcome.FAIL: "no effect", Outcome.UNRESOLVED: "unresolved"}
    return names[result.outcome]


def _likely_first(
    acting: list[FlagTrial], default: Measurement, diverging: set[str]
) -> list[list[FlagTrial]]:
    """The flags that change how many elements of a diverging output differ, then all that change the program:
    of two causes that each flip elements of their own, each shows in the first."""

    def differing(measurement: Measurement) -> list[int]:
        return [o.n_diff for o in measurement.outputs if o.path in diverging]

    moving = [t for t in acting if differing(t.result.measurement) != differing(default)]
    return [moving, acting] if len(moving) < len(acting) else [acting]


@in_rounds
def _with_sets(study: Study, found: FlagWalk, case: Case, default: Measurement) -> FlagWalk:
    """With minimal sets among the flags that change the program at all, if all of them together repair."""
    acting = found.programs(default)
    denied = Denied(study, case)
    for flags in _likely_first(acting, default, {s.path for s in study.signatures}):
        elements = [config_id(t.flag.name) for t in flags]
        if len(elements) > 1 and denied(frozenset(elements)) is Outcome.PASS:
            break
    else:
        return found
    repairs = [r for r in repairs_only(elements, denied, MOST_SETS).repairs if r.confirmed]
    sets = tuple(tuple(flag_of(m) for m in repair.members) for repair in repairs)
    necessary = {name for members in sets for name in members}
    return replace(
        found,
        trials=tuple(replace(t, role="necessary") if t.flag.name in necessary else t for t in found.trials),
        sets=sets,
        set_results=tuple(study.denied(frozenset(repair.members), case) for repair in repairs),
    )
