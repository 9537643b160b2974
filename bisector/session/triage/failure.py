"""What is known of one failure, as the file that its job leaves; and failures with one cause put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from bisector.core.clusters import Cause, cause_of
from bisector.core.decision import DecisionId
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

    def cut_short(self, result: Mapping[str, Any]) -> Looked:
        """Where the budget ended a run: what it found so far makes no cluster, and the next look, which goes
        on with its journal, may find more."""
        return replace(self, **self._cost(result), problem="the budget ended its run")

    def _cost(self, result: Mapping[str, Any]) -> dict[str, Any]:
        seconds = round(self.seconds + result["seconds"]["total"], 2)
        return {"probes": self.probes + probes_run(result), "seconds": seconds}

    def after(self, result: Mapping[str, Any], run: str, known: Cause | None) -> Looked:
        """With what a run found. known: the cluster that it belongs to."""
        flags = [fix for fix in _confirmed(result, "fixes") if fix["kind"] == "flag" and fix["set"]]
        cause = known or cause_of(
            [[*map(DecisionId, repair["decisions"])] for repair in _confirmed(result, "repairs")],
            [[*map(DecisionId, found["decisions"])] for found in _confirmed(result, "causes")],
            [fix["set"] for fix in flags],
        )
        return replace(
            self,
            cause=cause,
            known=known is not None,
            explained=True,
            **self._cost(result),
            verdict=result["verdict"]["class"],
            reason=result["verdict"]["reason"],
            run=run,
            repro=result["repro"] and f"{run}/{result['repro']}",
            n_ops=result["minimal"] and result["minimal"]["n_ops"],
            fix=flags[0]["id"] if flags else None,
            problem=None if cause else (result["stopped_because"] or "no cause was confirmed"),
        )


def _confirmed(result: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [one for one in result[name] if one["confirmed"]]


def probes_run(result: Mapping[str, Any]) -> int:
    """Those that were not answered by an earlier look."""
    return int(result["probes"]["total"] - result["probes"]["cached"])


def signature(result: Mapping[str, Any]) -> str:
    """Of a verdict: its class, and in what the outputs differ."""
    kinds = set()
    for output in result["verdict"]["outputs"]:
        if output["n_diff"]:
            kind = "non-finite" if output["nonfinite_mismatches"] else "value"
            kinds.add(f"{kind} of {output['dtype']}")
    return "; ".join([result["verdict"]["class"], *sorted(kinds)])


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
