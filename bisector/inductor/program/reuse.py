"""Calls of a script that run code which an earlier call compiled: what has changed since, and which of the
changes makes the difference.

That is asked in one run of the script. Eager runs again on the inputs of the call, once for each change, with
that change alone undone: where it then gives what the call gave, the compiled code computes with what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...core.criterion import Criterion
from ...core.evidence import Evidence
from ...core.judge import judge
from ...core.model import Measurement
from ...core.reuse import AGREES, NOT_BY_CHANGES, NOTHING_CHANGED, Changed, Reuse
from ...errors import first_line
from ..hooks import guard
from ..run_values import Values
from .call_state import Change, Given, State, told
from .eager_rerun import EagerRerun
from .watch import Started

MOST_TRIED = 32  # changes, each of which is a run of eager
MOST_TOLD = 6  # of the others


@dataclass(frozen=True)
class Began:
    """How a call began. number: of the call, from 1."""

    number: int
    state: State
    given: Given

    def changes(self, earlier: Began) -> list[Change]:
        """Since an earlier call."""
        return self.state.changes(earlier.state) + self.given.changes(earlier.given)


class Calls:
    """The calls of each function, and those that compiled it. memory: as of State."""

    def __init__(self, memory: bool = False) -> None:
        self.memory = memory
        self.running: Began | None = None
        self._compiled: dict[int, list[Began]] = {}

    def compiled(self, model: Any) -> Sequence[Began]:
        """How the calls began that compiled it, in their order."""
        return self._compiled.get(id(model), ())

    @contextmanager
    def around(self, started: Started) -> Iterator[None]:
        """Tells the hook of guards which call is running."""
        given = Given(started.model, started.args, started.kwargs)
        state = State(started.model, given.objects(), self.memory)
        now = self.running = Began(started.index + 1, state, given)
        earlier = self._compiled.setdefault(id(started.model), [])
        last = earlier[-1] if earlier else now
        if not earlier:
            earlier.append(now)
        call = guard.Running(started.entry, now.number, lambda: told(now.changes(last), last.number))
        with guard.running(call):
            yield
        if call.compiled:
            earlier.append(now)


class Explained:
    """Explains calls of a script, by their numbers. found: what is known of each."""

    def __init__(self, numbers: Sequence[int], criterion: Criterion) -> None:
        self.numbers = frozenset(numbers)
        self.criterion = criterion
        self.calls = Calls(memory=True)
        self.found: list[Reuse] = []
        self._entries: dict[int, str] = {}

    @contextmanager
    def around(self, started: Started) -> Iterator[None]:
        """A call that runs."""
        self._entries[started.index] = started.entry
        with self.calls.around(started):
            yield

    def rerun(
        self, index: int, model: Any, function: Callable[..., Any], args: Any, kwargs: Any,
        late: Callable[[], None],
    ) -> EagerRerun | None:  # fmt: skip
        """What runs eager on the inputs of a call; None of those that are not to be explained."""
        if index + 1 not in self.numbers:
            return None
        return _Rerun(self, index, model, function, args, kwargs, late)

    def explain(self, rerun: _Rerun, compiled: Values) -> None:
        """compiled: what the call gave."""
        now = rerun.began
        assert now is not None
        earlier = [one for one in self.calls.compiled(rerun.model) if one.number < now.number]
        entry = self._entries[rerun.index]
        if not earlier:
            return
        try:
            found = [self._of(entry, rerun, now, one, compiled) for one in reversed(earlier)]
        except Exception as error:  # noqa: BLE001 - the user's function may refuse to be run again in any way
            why = f"eager does not run a second time on its inputs: {first_line(error)}"
            found = [Reuse(entry, now.number, earlier[-1].number, unknown=why)]
        self.found.append(next((one for one in found if one.reasons), found[0]))

    def _of(self, entry: str, rerun: _Rerun, now: Began, earlier: Began, compiled: Values) -> Reuse:
        """compiled: what the call gave."""
        asked = _Asked(rerun, self.criterion, compiled)
        changes = now.changes(earlier)
        if not asked.differing:
            return Reuse(entry, now.number, earlier.number, unknown=AGREES)
        if not changes:
            return Reuse(entry, now.number, earlier.number, unknown=NOTHING_CHANGED)
        sets = _decisive(asked, changes[:MOST_TRIED])
        of_sets = {change.name for some in sets for change in some}
        others = tuple(change.name for change in changes if change.name not in of_sets)[:MOST_TOLD]
        reasons = tuple(tuple(Changed(c.name, c.was, c.now) for c in some) for some in sets)
        unknown = "" if reasons else NOT_BY_CHANGES
        return Reuse(entry, now.number, earlier.number, reasons, others, unknown)


class _Rerun(EagerRerun):
    def __init__(self, explained: Explained, *kept: Any) -> None:
        super().__init__(*kept)
        self.explained = explained
        self.began: Began | None = None

    def returned(self, result: Any) -> None:
        self.began = self.explained.calls.running
        super().returned(result)

    def evidence(self, compiled: Values) -> tuple[Evidence | None, str]:
        after, self.compared = State(self.model, self.objects), True
        try:
            self.explained.explain(self, self._comparable(compiled) | self.state)
        finally:
            after.put_back()
        return None, ""


class _Asked:
    """Whether eager gives what the call gave. differing: where it does not, as the call was made."""

    def __init__(self, rerun: _Rerun, criterion: Criterion, compiled: Values) -> None:
        self.rerun, self.criterion, self.compiled = rerun, criterion, compiled
        rerun.accumulates = any(path.startswith("grad[") for path in compiled)
        self.differing = self._differing(rerun.measured(rerun.run(), compiled))

    def agrees_without(self, changes: Sequence[Change]) -> bool:
        found = self.rerun.measured(self.rerun.run_without(changes), self.compiled)
        return found.error is None and not self.differing & self._differing(found)

    def _differing(self, found: Measurement) -> frozenset[str]:
        return frozenset(signature.path for signature in judge(found, self.criterion).signatures)


def _decisive(asked: _Asked, changes: Sequence[Change]) -> list[tuple[Change, ...]]:
    """Sets of changes: undone alone each makes eager agree, and where all others are undone it differs."""
    alone = [change for change in changes if asked.agrees_without([change])]
    if alone:
        others = [change for change in changes if change not in alone]
        return [(change,) for change in alone] if not others or not asked.agrees_without(others) else []
    if not asked.agrees_without(changes):
        return []
    needed = list(changes)
    for change in changes:
        fewer = [one for one in needed if one is not change]
        if fewer and asked.agrees_without(fewer):
            needed = fewer
    others = [change for change in changes if change not in needed]
    return [tuple(needed)] if not others or not asked.agrees_without(others) else []
