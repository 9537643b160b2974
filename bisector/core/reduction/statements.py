"""The pass that leaves statements out of a script: what only looks at results, what nothing reads then, and,
where the script is still long, whatever else it diverges without.

What its text says is a guess (`script_names`); that the script diverges alike is asked of its runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from ..case import Case
from ..model import ProbeResult, family
from ..outcome import Outcome
from ..script_names import LeftOut, ScriptNames
from ..script_text import program_lines, without
from .problem import Problem, Trial
from .script import diverging_calls

SHORT = 20  # lines of code: a script that has no more is read at once
MOST_TRIED = 16  # cases after the guess; each takes a run in eager and two that compile
AT_ONCE = 4


def fewest_statements(problem: Problem, source: str) -> None:
    """Leave out statements without which the script diverges the same way. source: its text."""
    if not diverging_calls(problem.default.signatures):
        return  # what it prints is known by the numbers of its lines
    names = ScriptNames(source)
    guess, shows = names.cleaned(names.reports), _first_value(problem.default)
    trials = map(problem.interesting, _cases(problem.case, [guess, names.reports]))
    if guess and not any(_accepted(problem, trial, shows) for trial in trials):
        return
    if frozenset(problem.case.left_out) != guess:
        return  # what nothing seems to read is needed: the text says too little
    tried, size = {problem.case}, len(names.all)
    while size > 1:
        size = (size + 1) // 2
        while _is_long(source, problem.case) and len(tried) <= MOST_TRIED:
            fewer = _fewer(names, problem.case, size)
            some = list(islice((case for case in fewer if case not in tried), AT_ONCE))
            if not some:
                break
            tried.update(some)
            _accepted(problem, problem.at_once(some), shows)


def _first_value(default: ProbeResult) -> str:
    """Whether the first value that diverges is an output, an argument, a gradient or a part of the state."""
    return family(default.signatures[0].path.partition(".")[2])


def _accepted(problem: Problem, trial: Trial | None, shows: str) -> bool:
    """Take a case that diverges in such a value too: a repro shows no attributes of objects, which may be all
    that is left of it."""
    if trial is None or trial.outcome is not Outcome.FAIL:
        return False
    found = {family(signature.path.partition(".")[2]) for signature in trial.default.signatures}
    if shows not in found:
        return False
    problem.accept(trial)
    return True


def _is_long(source: str, case: Case) -> bool:
    return program_lines(without(source, case.left_out)) > SHORT


def _cases(case: Case, left_out: Iterable[LeftOut]) -> Iterator[Case]:
    return (case.with_left_out(*lines) for lines in left_out if lines)


def _fewer(names: ScriptNames, case: Case, size: int) -> Iterator[Case]:
    """Cases with so many statements less, as long as names stay bound; the last ones first."""
    left_out = frozenset(case.left_out)
    outer = [one for one in names.all if one.first in left_out]
    stay = [one for one in names.all if one.first not in left_out and not any(o.holds(one) for o in outer)]
    stay.reverse()
    parts = (frozenset(one.first for one in stay[at : at + size]) for at in range(0, len(stay), size))
    fewer = (names.cleaned(left_out | part) for part in parts)
    return _cases(case, filter(names.binds_as_before, fewer))
