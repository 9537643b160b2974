"""Failures with one cause, put together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bisector.core.clusters import Cause
from bisector.core.model import Outcome

from .outcome import Looked


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
