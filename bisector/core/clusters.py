"""Failures by what causes them: what an answer says of other failures, and how similar two partitions are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

from .decision import DecisionId, Pattern
from .kinds import KINDS

# Where something is computed, and not how: these make room for a cause (a cast is dropped inside a kernel,
# whatever put its two ends into one) and change with the ops around it.
_CONTEXT = frozenset(kind.name for kind in KINDS.values() if kind.makes_room)
# What follows these is an operation or a kernel of the one graph.
_OF_ONE_GRAPH = frozenset(kind.name for kind in KINDS.values() if kind.detail_is_local)


def pattern(decision_id: DecisionId) -> Pattern:
    """What a decision has in common with those of other graphs: `cast:bfloat16` of
    `cast:bfloat16/convert_element_type_1@mul`, `fma` of `fma:sub@mul_1`."""
    kind = decision_id.kind
    return Pattern(kind if kind in _OF_ONE_GRAPH else f"{kind}:{decision_id.op}")


@dataclass(frozen=True)
class Cause:
    """What makes a cluster, by patterns of decisions.

    repair: those that, denied wherever they are, make the outputs agree; empty where no repair is known.
    cause: those that, enabled over the plain baseline with the context they need, make them diverge; empty
    where no cause is known. flags: a fix by flags, where no decision is known to repair.
    """

    repair: frozenset[Pattern]
    cause: frozenset[Pattern] = frozenset()
    flags: tuple[tuple[str, Any], ...] = ()

    @property
    def key(self) -> str:
        """Equal for failures of one cluster."""
        parts = self.repair or self.cause or [f"{name}={value}" for name, value in self.flags]
        return " + ".join(sorted(parts))

    def to_json(self) -> dict[str, Any]:
        return {
            "repair": sorted(self.repair),
            "cause": sorted(self.cause),
            "flags": [list(pair) for pair in self.flags],
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Cause:
        flags = tuple((name, value) for name, value in raw["flags"])
        return cls(frozenset(map(Pattern, raw["repair"])), frozenset(map(Pattern, raw["cause"])), flags)

    def denied(self, decisions: Iterable[DecisionId]) -> frozenset[DecisionId]:
        """Of a graph's decisions, those to deny."""
        return frozenset(d for d in decisions if pattern(d) in self.repair)

    def enabled(self, decisions: Iterable[DecisionId]) -> frozenset[DecisionId]:
        """Of a graph's decisions, those to enable over the plain baseline."""
        return frozenset(d for d in decisions if pattern(d) in self.cause or d.kind in _CONTEXT)


def cause_of(
    repairs: Sequence[Sequence[DecisionId]],
    causes: Sequence[Sequence[DecisionId]],
    flag_fixes: Sequence[Mapping[str, Any]],
) -> Cause | None:
    """The cause that an answer names; None where nothing of it is confirmed.

    repairs, causes: the confirmed ones, decision IDs, small and fine ones first. flag_fixes: settings that
    repair, the best first.
    """
    repair = patterns(repairs[0]) if repairs else frozenset()
    members = set(repairs[0]) if repairs else set()
    related = [found for found in causes if members & set(found)] or list(causes)
    cause = frozenset().union(*map(patterns, related))
    if repair or cause:
        return Cause(repair, cause)
    return Cause(frozenset(), flags=tuple(sorted(flag_fixes[0].items()))) if flag_fixes else None


def patterns(decisions: Iterable[DecisionId]) -> frozenset[Pattern]:
    """Those of the decisions, without their context where there is more to it."""
    found = frozenset(map(pattern, decisions))
    return frozenset(p for p in found if p.kind not in _CONTEXT) or found


def rand_index(ours: Sequence[str], theirs: Sequence[str]) -> float:
    """How similar two partitions of one set are: 1 where equal, 0 by chance (Hubert and Arabie, 1985).

    ours, theirs: the cluster of each thing.
    """
    pairs = sum(comb(n, 2) for n in Counter(zip(ours, theirs, strict=True)).values())
    first, second = (sum(comb(n, 2) for n in Counter(each).values()) for each in (ours, theirs))
    total = comb(len(ours), 2)
    expected = first * second / total if total else 0.0
    most = (first + second) / 2
    return 1.0 if most == expected else (pairs - expected) / (most - expected)
