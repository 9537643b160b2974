"""Which of several C++ compilers shows a divergence, with the torch that is installed: each runs the repro
once, and of those that agree and those that diverge the first runs it once more.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bisector.builds.predicate import Interpreter, installed
from bisector.core.budget import BudgetSpent
from bisector.core.endings import AllAlike, CompilerUnknown
from bisector.core.found_builds import Commit
from bisector.core.ladder import Bracket, Step
from bisector.core.outcome import Outcome

from .. import environment
from .bisection import NOTHING, UNCONFIRMED, Found, confirm
from .build_test import BuildTest

RUNG = "C++ compilers"


class Compilers:
    """The compilers by the names or paths that the user gave; a source of builds of one torch."""

    def identity(self, name: str) -> Mapping[str, Any]:
        return {"installed": environment.version("torch"), "compiler": environment.compiler(name)}

    def commit(self, name: str) -> str | None:
        return None

    def interpreter(self, name: str) -> Interpreter:
        return replace(installed(), variables={"CXX": shutil.which(name) or name})

    def foresee(self, names: Sequence[str]) -> None:
        """All are there."""

    def strange(self, line: Mapping[str, Any]) -> str:
        return ""

    def close(self) -> None:
        """Nothing was opened."""

    def precision(self, bracket: Bracket) -> str:
        return "compiler"

    def commits(self, bracket: Bracket) -> Sequence[Commit]:
        return ()

    def limits(self, bracket: Bracket) -> Sequence[str]:
        return ()


def compare(names: Sequence[str], asking: BuildTest) -> Found:
    """The bracket is the first that agrees and the first that diverges."""
    try:
        outcomes = {name: asking.result(name).outcome for name in names}
        agreeing, diverging = (
            [name for name, outcome in outcomes.items() if outcome is wanted]
            for wanted in (Outcome.PASS, Outcome.FAIL)
        )
        if agreeing and diverging:
            bracket = Bracket(agreeing[0], diverging[0])
            found = Found(UNCONFIRMED, bracket=bracket, steps=[Step(RUNG, len(names), bracket)])
            confirm(asking, found, [bracket.before, bracket.after])
            return found
    except BudgetSpent as spent:
        return Found(UNCONFIRMED, spent.reason)
    if len(agreeing) == len(names) or len(diverging) == len(names):
        return Found(NOTHING, AllAlike(Outcome.FAIL if diverging else Outcome.PASS))
    unknown = [name for name in names if name not in (*agreeing, *diverging)]
    return Found(UNCONFIRMED, CompilerUnknown(unknown[0], asking.result(unknown[0]).reason))
