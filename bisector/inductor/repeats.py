"""One compiled program run several times: whether it is steady."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from bisector.core.evidence import Repeated, Rerun

from .equality import same
from .execute import Outputs, Subject, eager_program, measured, run
from .measure import Exact

LEAST_RUNS, RUNNING_S = 4, 0.5
DISTINCT = 6  # results that are kept; a run that gives none of them is counted with the last
EAGER_BETWEEN = 3  # runs after which eager runs in between, so that freed memory holds something else


def repeated(
    subject: Subject,
    compiled: Callable[..., Any],
    eager: Outputs,
    first: Outputs,
    runs: int,
    reference: Mapping[str, Exact] | None = None,
) -> Repeated:
    """Run a compiled program again, on the same inputs and from the same random state.

    first: the outputs of its first run, with which the others are compared. runs: all of them; fewer where
    they take long. reference: the outputs of a float64 run, if there is one.
    """
    distinct: list[tuple[Outputs, int]] = []
    made, ends = 1, time.monotonic() + RUNNING_S
    while made < runs and (made < LEAST_RUNS or time.monotonic() < ends):
        if made <= EAGER_BETWEEN:
            run(subject, eager_program(subject))
        try:
            outputs = run(subject, compiled)
        except Exception:  # noqa: BLE001 - a program that runs once only is no worse for that
            break
        made += 1
        if not _differs(first, outputs):
            continue
        at = next((i for i, (known, _) in enumerate(distinct) if not _differs(known, outputs)), None)
        if at is None and len(distinct) == DISTINCT:
            at = DISTINCT - 1
        if at is None:
            distinct.append((outputs, 1))
        else:
            distinct[at] = distinct[at][0], distinct[at][1] + 1
    others = tuple(
        Rerun(
            count,
            measured(subject, eager, outputs, reference),
            measured(subject, first, outputs),
        )
        for outputs, count in distinct
    )
    return Repeated(made, others)


def _differs(first: Outputs, second: Outputs) -> bool:
    """Whether anything differs: a bit, a shape, a dtype, or which values there are."""
    return first.keys() != second.keys() or not all(same(first[path], second[path]) for path in first)
