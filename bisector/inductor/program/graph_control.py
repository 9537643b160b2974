"""The Control of a whole program: its decisions are told apart by the graph that they are taken in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from torch._guards import CompileContext

from ...core.model import Base, Decision
from ..control import Control


class Graphs:
    """The graphs of a script by number, from 1 on in the order in which a backend was given them.

    The backward graph has the forward's number: autograd compiles it under the same compile ID
    (torch/_functorch/_aot_autograd/runtime_wrappers.py), whenever it comes to it.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def current(self) -> int:
        """The number of the graph that is being compiled."""
        compiling = str(CompileContext.current_compile_id())
        return self._numbers.setdefault(compiling, len(self._numbers) + 1)


class ProgramControl(Control):
    """Hooks ask with the IDs of one graph; here they are `g2/fma:sub@mul_1`, with the graph's number."""

    def __init__(self, graphs: Graphs, base: Base = Base.DEFAULT, members: Iterable[str] = ()) -> None:
        super().__init__(base, members)
        self._graphs = graphs

    def _named(self, decision_id: str) -> str:
        return f"g{self._graphs.current()}/{decision_id}"

    def allows(self, decision_id: str) -> bool:
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

    def denied(self, decision_id: str) -> bool:
        named = self._named(decision_id)
        return named in self._seen and not super().allows(named)
