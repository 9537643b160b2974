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

from torch._dynamo.utils import counters

from ...core.criterion import Criterion
from ...core.evidence import Evidence
from ...core.judge import judge
from ...core.model import Measurement
from ...core.reuse import AGREES, NOT_BY_CHANGES, NOTHING_CHANGED, SEVERAL, Changed, Let, Reuse
from ...errors import first_line
from ..hooks import guard
from ..run_values import Values
from .call_state import Change, State, told
from .eager_rerun import EagerRerun
from .given import Given
from .watch import Started

MOST_TRIED = 32  # changes, each of which is a run of eager
MOST_TOLD = 6  # of the others
_OF_INPUTS = ("state[", "argument[")
MOST_EARLIER = 4  # calls that may have compiled what runs


@dataclass(frozen=True)
class Began:
    """How a call of `entry` began. number: of the call, from 1."""

    number: int
    entry: str
    state: State
    given: Given

    def changes(self, earlier: Began) -> list[Change]:
        """Since an earlier call."""
        return self.given.changes(earlier.given) + self.state.changes(earlier.state)


class Calls:
    """The calls of each function, and those that compiled it. whole: whether all of the state is kept, that
    of the files and of tensors too."""

    def __init__(self, whole: bool = False) -> None:
        self.whole = whole
        self.running: Began | None = None
        self._compiled: dict[int, list[Began]] = {}

    def compiled_before(self, model: Any, number: int) -> tuple[Let, list[Began]]:
        """The earlier calls whose code this one may run, the last first: those that compiled this function;
        where it compiled it itself, and so has it from a cache, all that compiled one of its name."""
        own = self._compiled.get(id(model), [])
        every = [one for some in self._compiled.values() for one in some]
        of_name = [one for one in every if own and one.entry == own[0].entry]
        let = Let.CACHE if any(one.number == number for one in own) else Let.GUARDS
        found = of_name if let is Let.CACHE else own
        return let, sorted((one for one in found if one.number < number), key=lambda one: -one.number)

    @contextmanager
    def around(self, started: Started) -> Iterator[None]:
        """Tells the hook of guards which call is running."""
        given = Given(started.model, started.args, started.kwargs)
        state = State(started.model, given.objects, memory=self.whole, files=self.whole)
        now = self.running = Began(started.index + 1, started.entry, state, given)
        earlier = self._compiled.setdefault(id(started.model), [])
        last = earlier[-1] if earlier else now
        if not earlier:
            earlier.append(now)
        call = guard.Running(started.entry, now.number, lambda: told(now.changes(last), last.number))
        graphs = _graphs()
        with guard.running(call):
            yield
        if earlier[-1] is not now and (call.compiled or _graphs() != graphs):
            earlier.append(now)


def _graphs() -> int:
    """How many graphs Dynamo has made by now."""
    return int(counters["stats"]["unique_graphs"])


class Explained:
    """Explains calls of a script, by their numbers. found: what is known of each."""

    def __init__(self, numbers: Sequence[int], criterion: Criterion) -> None:
        self.numbers = frozenset(numbers)
        self.criterion = criterion
        self.calls = Calls(whole=True)
        self.found: list[Reuse] = []

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
        let, earlier = self.calls.compiled_before(rerun.model, now.number)
        if not earlier:
            return
        try:
            found = [self._of(rerun, now, one, let, compiled) for one in earlier[:MOST_EARLIER]]
        except Exception as error:  # noqa: BLE001 - the user's function may refuse to be run again in any way
            why = f"eager does not run a second time on its inputs: {first_line(error)}"
            found = [Reuse(now.entry, now.number, earlier[0].number, let, unknown=why)]
        self.found.append(next((one for one in found if one.reasons), found[0]))

    def _of(self, rerun: _Rerun, now: Began, earlier: Began, let: Let, compiled: Values) -> Reuse:
        """compiled: what the call gave."""
        asked = _Asked(rerun, self.criterion, compiled)
        changes = now.changes(earlier)
        calls = now.entry, now.number, earlier.number, let
        if not asked.differing:
            return Reuse(*calls, unknown=AGREES)
        if not changes:
            return Reuse(*calls, unknown=NOTHING_CHANGED)
        sets, unknown = _decisive(asked, changes)
        of_sets = {change.name for some in sets for change in some}
        others = dict.fromkeys(change.name for change in changes if change.name not in of_sets)
        reasons = tuple(tuple(Changed(c.name, c.was, c.now) for c in some) for some in sets)
        return Reuse(*calls, reasons, tuple(others)[:MOST_TOLD], unknown)


class _Rerun(EagerRerun):
    def __init__(self, explained: Explained, *kept: Any) -> None:
        super().__init__(*kept)
        self.explained = explained
        self.began: Began | None = None

    def returned(self, result: Any) -> None:
        self.began = self.explained.calls.running
        super().returned(result)

    def evidence(self, compiled: Values) -> tuple[Evidence | None, str]:
        after, self.compared = State(self.model, self.objects, files=True), True
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
        """Whether eager gives what the call gave where these are undone; what is undone itself, of the state
        and the arguments, differs then. Not where eager raises."""
        try:
            found = self.rerun.measured(self.rerun.run_without(changes), self.compiled)
        except Exception:  # noqa: BLE001 - the user's function may raise anything where its state is another
            return False
        differing = self._differing(found)
        undone = {path for path in differing if path.startswith(_OF_INPUTS)}
        return found.error is None and not (differing - undone) | (differing & self.differing)

    def _differing(self, found: Measurement) -> frozenset[str]:
        return frozenset(signature.path for signature in judge(found, self.criterion).signatures)


def _decisive(asked: _Asked, changes: Sequence[Change]) -> tuple[list[tuple[Change, ...]], str]:
    """Sets of changes: undone alone each makes eager agree, and where all others are undone it differs. Or
    why there are none."""
    alone = [change for change in changes[:MOST_TRIED] if asked.agrees_without([change])]
    sets: list[tuple[Change, ...]] = [(change,) for change in alone]
    if not sets and not asked.agrees_without(changes):
        return [], NOT_BY_CHANGES
    sets = sets or [tuple(_needed(asked, list(changes)))]
    named = [change for some in sets for change in some]
    others = [change for change in changes if change not in named]
    return ([], SEVERAL) if others and asked.agrees_without(others) else (sets, "")


def _needed(asked: _Asked, changes: list[Change]) -> list[Change]:
    """Of changes that together make eager agree those that are needed: larger parts are left out first."""
    size = max(1, len(changes) // 2)
    while size:
        start = 0
        while start < len(changes):
            fewer = changes[:start] + changes[start + size :]
            if fewer and asked.agrees_without(fewer):
                changes = fewer
            else:
                start += size
        size //= 2
    return changes
