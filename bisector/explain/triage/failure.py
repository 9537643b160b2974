"""What is known of one failure, as the file that its job leaves; and failures with one cause put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bisector.core.clusters import Cause
from bisector.core.outcome import Outcome


@dataclass(frozen=True)
class Looked:
    """A failure after a look at it.

    outcome: of eager against compiled. verdict, reason: what they are to each other. signature: what it has
    in common with failures that may have the same cause; patterns: of the decisions of its default compile.
    cause: None where none is confirmed. known: the cause is that of a cluster, and was confirmed here by its
    own two probes; else by a full run. run: its directory, relative to the store. problem: why nothing more
    is known, in one line.
    """

    id: str
    target: str
    first_seen: str
    outcome: Outcome
    verdict: str
    reason: str
    signature: str
    patterns: tuple[str, ...] = ()
    cause: Cause | None = None
    known: bool = False
    explained: bool = False
    probes: int = 0
    seconds: float = 0.0
    run: str | None = None
    repro: str | None = None
    n_ops: int | None = None
    fix: str | None = None
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        raw = asdict(self) | {"outcome": self.outcome.value}
        return raw | {"cause": self.cause.to_json() if self.cause else None}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Looked:
        cause = Cause.from_json(raw["cause"]) if raw["cause"] else None
        typed = {"outcome": Outcome(raw["outcome"]), "cause": cause, "patterns": tuple(raw["patterns"])}
        return cls(**{**raw, **typed})

    def likeness(self, other: Looked) -> float:
        """How likely two failures share a cause, 0 to 1: by what is decided in both (Jaccard's index)."""
        mine, others = set(self.patterns), set(other.patterns)
        if self.signature != other.signature or not mine | others:
            return 0.0
        return len(mine & others) / len(mine | others)


@dataclass(frozen=True)
class Cluster:
    """members: in the order in which they were first seen. cause: what all of them have."""

    cause: Cause
    members: tuple[Looked, ...]

    @property
    def representative(self) -> Looked:
        """The one with the smallest repro; where none has one, the first."""
        with_repro = [one for one in self.members if one.repro is not None]
        return min(with_repro or self.members, key=lambda one: (one.n_ops or 1 << 30, one.first_seen, one.id))

    @property
    def fix(self) -> str | None:
        return next((one.fix for one in self.members if one.fix), None)

    @property
    def verdicts(self) -> list[str]:
        return sorted({one.verdict for one in self.members})


def clustered(failures: Iterable[Looked]) -> list[Cluster]:
    """The largest first, among equals the one that was seen first."""
    by_key: dict[str, list[Looked]] = {}
    for one in failures:
        if one.cause is not None and one.outcome is Outcome.FAIL:
            by_key.setdefault(one.cause.key, []).append(one)
    made = [Cluster(_joined(members), tuple(members)) for members in by_key.values()]
    return sorted(made, key=lambda cluster: (-len(cluster.members), cluster.members[0].first_seen))


def _joined(members: list[Looked]) -> Cause:
    """The cause with every pattern that made some member diverge: what stands around it differs."""
    causes = [one.cause for one in members if one.cause is not None]
    cause = frozenset().union(*(each.cause for each in causes))
    return Cause(causes[0].repair, cause, causes[0].flags)
