"""The one object that every hook asks: may the compiler take this decision?

With nothing denied a compile enumerates its decisions; with members it overrides them. The search sees
only IDs. One Control belongs to one compile (forward and backward together).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from ..core.decision import Decision, DecisionId
from ..core.kinds import KINDS
from ..core.model import Base, Candidate

_RUNGS = {kind.name: kind.rungs for kind in KINDS.values() if kind.rungs}
_KEPT_IN_PLAIN = frozenset(kind.name for kind in KINDS.values() if kind.kept_in_plain)


class Control:
    """Records the decisions of one compile, once per ID and in order, and answers for each.

    rung: where a whole script runs, its backend; None where one graph is compiled. base, members: as in
    `Candidate`. listed: kinds with so many decisions that they are recorded only where they are wanted. Over
    Base.DEFAULT an ID is allowed unless it is a member; over
    Base.PLAIN only if it is a member, or its kind is kept in plain and it is none.
    """

    def __init__(
        self,
        base: Base = Base.DEFAULT,
        members: Iterable[str] = (),
        rung: str | None = None,
        listed: Iterable[str] = (),
    ) -> None:
        self.base = base
        self.listed = frozenset(listed)
        self.rung = rung
        self.members = frozenset(map(DecisionId, members))
        self._seen: dict[DecisionId, Decision] = {}

    @classmethod
    def of(cls, candidate: Candidate) -> Control:
        return cls(candidate.base, candidate.members)

    def allows(self, decision_id: DecisionId) -> bool:
        """The answer for an ID, without a record: for choices that may still come to nothing."""
        if self.base is Base.PLAIN:
            return (decision_id in self.members) != (decision_id.kind in _KEPT_IN_PLAIN)
        return decision_id not in self.members

    def ask(self, kind: str, detail: str, node: str, text: str = "", where: str = "") -> bool:
        """Records `kind:detail@node` and says whether it is allowed.

        text: the decision in a sentence; where: the user's `file:line`. The first call for an ID sets both.
        """
        return self.take(Decision(DecisionId.of(kind, detail, node), text, where))

    def take(self, decision: Decision) -> bool:
        """`ask` for a decision that is put into words already."""
        self._seen.setdefault(decision.id, decision)
        return self.allows(decision.id)

    def refuses(self, decision: Decision) -> bool:
        """Whether a decision is denied that could still come to nothing. A member is recorded: that it comes
        to it is known from the listing."""
        if self.allows(decision.id):
            return False
        if decision.id in self.members:
            self.take(decision)
        return True

    def denies(self, kind: str) -> bool:
        """Whether any decision of the kind may be denied."""
        in_plain = self.base is Base.PLAIN and kind not in _KEPT_IN_PLAIN
        return in_plain or any(member.kind == kind for member in self.members)

    def lists(self, kind: str) -> bool:
        """Whether the decisions of such a kind are wanted."""
        return kind in self.listed

    def denied(self, decision_id: DecisionId) -> bool:
        """Whether this compile asked about the ID and was refused."""
        return decision_id in self._seen and not self.allows(decision_id)

    def decisions(self) -> tuple[Decision, ...]:
        """Every decision asked about so far, in the order the compiler took them."""
        return tuple(self._seen.values())

    def vanished(self) -> tuple[DecisionId, ...]:
        """Members that this compile never asked about, sorted."""
        return tuple(sorted(self.members - self._seen.keys()))


_active: Control | None = None
_disabled: dict[str, str] = {}
not_taken: dict[str, str] = {}  # kinds of which this torch takes no decision, with the reason


def current(kind: str | None = None) -> Control | None:
    """The active Control. None means: behave exactly as unpatched torch.

    kind: the caller's kind of decision; None also where that kind is switched off, or is not taken where the
    active Control is.
    """
    elsewhere = _active is not None and kind in _RUNGS and _active.rung not in _RUNGS[kind]
    return None if kind in _disabled or elsewhere else _active


@contextmanager
def activate(control: Control) -> Iterator[Control]:
    """Hooks ask `control` inside the block. Blocks do not nest: a compile has one Control."""
    global _active
    if _active is not None:
        raise RuntimeError("a Control is active already: leave its block first")
    _active = control
    try:
        yield control
    finally:
        _active = None


def disable(kind: str, reason: str = "switched off") -> None:
    """Switches a kind off for the rest of the process: its hooks never ask again."""
    _disabled[kind] = reason


def disabled() -> dict[str, str]:
    """The kinds that are off, with the reason."""
    return dict(_disabled)


def set_disabled(kinds: Mapping[str, str]) -> None:
    """Exactly these kinds are off, with the reasons that `disabled` gave."""
    _disabled.clear()
    _disabled.update(kinds)
