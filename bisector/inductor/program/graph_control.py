"""The Control of a whole program: its decisions are distinguished by the graph that they are taken in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from torch._guards import CompileContext

from ...core.decision import Decision, DecisionId
from ...core.kinds import KINDS
from ...core.model import Base
from ..control import Control

_OF_CALLS = frozenset(kind.name for kind in KINDS.values() if kind.of_calls)


class Graphs:
    """The graphs of a script by number, from 1 on in the order in which a backend was given them.

    The backward graph has the forward's number: autograd compiles it under the same compile ID
    (torch/_functorch/_aot_autograd/runtime_wrappers.py), whenever it comes to it. After
    `torch._dynamo.reset()` another graph has an equal ID, but not the same object.
    """

    def __init__(self) -> None:
        self._known: list[object] = []

    def current(self) -> int:
        """The number of the graph that is being compiled."""
        compiling = CompileContext.current_compile_id()
        for number, known in enumerate(self._known, 1):
            if known is compiling:
                return number
        self._known.append(compiling)
        return len(self._known)


class ProgramControl(Control):
    """Hooks ask with the IDs of one graph; here they are `g2/fma:sub@mul_1`, with the graph's number.

    rung: the backend that the script is run with.
    """

    def __init__(
        self, graphs: Graphs, rung: str, base: Base = Base.DEFAULT, members: Iterable[str] = ()
    ) -> None:
        super().__init__(base, members, rung)
        self._graphs = graphs

    def _named(self, decision_id: DecisionId) -> DecisionId:
        if decision_id.kind in _OF_CALLS:
            return decision_id
        return decision_id.in_graph(self._graphs.current())

    def allows(self, decision_id: DecisionId) -> bool:
        return super().allows(self._named(decision_id))

    def take(self, decision: Decision) -> bool:
        named = replace(decision, id=self._named(decision.id))
        self._seen.setdefault(named.id, named)
        return super().allows(named.id)

    def refuses(self, decision: Decision) -> bool:
        if self.allows(decision.id):
            return False
        if self._named(decision.id) in self.members:
            self.take(decision)
        return True

    def denied(self, decision_id: DecisionId) -> bool:
        named = self._named(decision_id)
        return named in self._seen and not super().allows(named)
