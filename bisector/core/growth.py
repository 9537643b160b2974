"""Whether rounding makes of a script what it shows compiled.

The script is run with compilation off, each operation of its calls moved by some steps of its dtype: what
differs compiled must differ then too, or rounding does not explain it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .criterion import Criterion
from .printed import PrintedLine
from .program import PlainRun
from .shown import CALL, outputs_of

ROUNDED_RUNS = 3  # a value that lies at a step is met by most of them
VALUES = "values"  # of the calls, in the place of a path
# Of the places that differ compiled. Steps are met by chance, and the first of the lines that a small
# difference reaches is now this one and now that.
MOST_PLACES = 0.5


def is_made_by_rounding(
    eager: PlainRun,
    compiled: PlainRun,
    rounded: Iterable[PlainRun],
    criterion: Criterion,
    lines: Sequence[PrintedLine] = (),
    last: int | None = None,
) -> bool:
    """rounded: runs in which rounding was made larger; no more of them are asked for than are needed. lines:
    the printed ones that count. last: the place of the call at which the script diverges, where these runs
    end; None where it is outside its calls."""
    if last is not None:
        eager, compiled = (PlainRun(run.calls[: last + 1]) for run in (eager, compiled))
        rounded = (PlainRun(run.calls[: last + 1]) for run in rounded)
    wanted, met = _places(eager, compiled, criterion, lines), set[str]()
    for run in rounded:
        met |= _places(eager, run, criterion, lines) & wanted
        if len(met) >= MOST_PLACES * len(wanted):
            return bool(wanted)
    return False


def _places(
    eager: PlainRun, run: PlainRun, criterion: Criterion, lines: Sequence[PrintedLine]
) -> frozenset[str]:
    """Where a run differs: all values of calls are one place, since they pass a difference on."""
    outputs = outputs_of(eager, run, lines=lines)
    paths = (output.path for output in outputs if criterion.divergence(output) is not None)
    return frozenset(VALUES if _is_value(path) else path for path in paths)


def _is_value(path: str) -> bool:
    return path.startswith(CALL) and not path.endswith(".exception")
