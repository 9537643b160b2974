"""Who writes the repro of a divergence: the graph with its inputs, or the script itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bisector.core.case import Case
from bisector.core.criterion import Criterion
from bisector.core.protocol import Failed, Repro, ScriptSpec, WriteRepro
from bisector.core.search_notes import ReproOf

from . import script_repro
from .study import Study


class ReproWriter:
    """Writes the repro of a divergence. of: what the repro is made of."""

    of: ClassVar[ReproOf]

    def criterion_of(self, case: Case) -> Criterion:
        """What the repro of a case is held to."""
        raise NotImplementedError

    def write(self, case: Case, spec: ScriptSpec) -> Repro | Failed:
        """The text of the repro of a case."""
        raise NotImplementedError


@dataclass(frozen=True)
class GraphWriter(ReproWriter):
    """Writes a graph with its inputs; the worker, which holds them, is asked for the text."""

    of = ReproOf.GRAPH

    study: Study

    def criterion_of(self, case: Case) -> Criterion:
        return self.study.criterion_of(case)

    def write(self, case: Case, spec: ScriptSpec) -> Repro | Failed:
        return self.study.lab.ask(WriteRepro(self.study.about(case), spec))


@dataclass(frozen=True)
class ScriptWriter(ReproWriter):
    """Writes the script itself, run twice and compared call by call, and by its printed lines."""

    of = ReproOf.SCRIPT

    source: script_repro.Source
    criterion: Criterion

    def criterion_of(self, case: Case) -> Criterion:
        return self.criterion

    def write(self, case: Case, spec: ScriptSpec) -> Repro:
        return Repro(script_repro.text(self.source, case, spec))
