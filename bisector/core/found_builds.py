"""Which build of torch, or which compiler, a divergence depends on: what the command `builds` finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .model import Json
from .outcome import Outcome


@dataclass(frozen=True)
class AskedBuild:
    """A build that was asked. torch: its version, None where it did not start. digests: of the bits of
    inputs, eager and compiled, by these words; None where nothing ran."""

    name: str
    torch: str | None
    commit: str | None
    outcome: Outcome
    reason: str
    digests: Mapping[str, str | None] | None


@dataclass(frozen=True)
class ChangedDefaults:
    """older, newer: the defaults that differ between two builds, by name. decisive: sets of them with whose
    older values the newer build gives what the older one gave: each that does alone, else all of them."""

    older: Mapping[str, Json] = field(default_factory=dict)
    newer: Mapping[str, Json] = field(default_factory=dict)
    decisive: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class BuildStep:
    """The search in one index, or in the commits. candidates: builds in it; ended: why it ended before the
    next finer one, empty where it did not; before, after: the two builds that are left."""

    rung: str
    candidates: int
    ended: str
    before: str
    after: str


@dataclass(frozen=True)
class Commit:
    """pull: the number of its pull request, None where the message has none. note: `revert`, `reland` or
    empty. inductor: whether it touches Inductor's own files."""

    sha: str
    title: str
    pull: int | None
    note: str
    inductor: bool


@dataclass(frozen=True)
class FoundBuilds:
    """looked_for: `introduced`, `fixed` or `compiler`. answer: how fine it is, None where there is no change.
    before, after: the last build with the earlier outcome, and the first with the other one. skipped: builds
    without an outcome. moved: which of inputs, eager and compiled have other bits in the two, None where that
    is not known. compare: the page that shows the commits between them."""

    looked_for: str
    answer: str | None
    before: AskedBuild | None
    after: AskedBuild | None
    skipped: tuple[str, ...]
    confirmed: bool
    reason: str
    moved: tuple[str, ...] | None
    changed_defaults: ChangedDefaults | None
    compare: str | None
    steps: tuple[BuildStep, ...]
    tried: tuple[AskedBuild, ...]
    commits: tuple[Commit, ...]
    not_established: tuple[str, ...]
