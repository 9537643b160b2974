"""A build's outcome: from the journal, from another build of the same commit, or by a run of the repro."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bisector.builds import history
from bisector.builds.line import Source
from bisector.builds.predicate import BuildResult, CannotInstall, ask
from bisector.core.budget import BudgetSpent
from bisector.core.endings import Ending
from bisector.core.options import FIXED, Question
from bisector.core.outcome import Outcome
from bisector.core.progress import BuildAsked, BuildAskedUnder, Progress
from bisector.runner.journal import Journal, key_of

from .. import environment


@dataclass(frozen=True)
class TriedBuild:
    """One build and what it gave. commit: of its sources, None where it says none; same_as: the build of the
    same commit that was run in its place."""

    name: str
    result: BuildResult
    commit: str | None
    same_as: str | None = None

    def standing_for(self, name: str) -> TriedBuild:
        return TriedBuild(name, self.result, self.commit, self.same_as or self.name)


@dataclass
class BuildTest:
    """Answers for the builds of a source. exhausted: why no further build may be asked, or None."""

    question: Question
    repro: Path
    source: Source
    journal: Journal
    exhausted: Callable[[], Ending | None]
    progress: Progress
    tried: dict[str, TriedBuild] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._repro_digest = hashlib.sha256(self.repro.read_bytes()).hexdigest()

    def __call__(self, name: str) -> Outcome:
        """The outcome as the search for a change wants it: PASS before the change. Raises BudgetSpent."""
        outcome = self.result(name).outcome
        return outcome.inverted() if self.question.looked_for == FIXED else outcome

    def result(self, name: str) -> BuildResult:
        if name not in self.tried:
            found = self._asked(name)
            self.tried[name] = found
            result = found.result
            asked = BuildAsked(name, found.commit, result.outcome, result.reason, found.same_as)
            self.progress("builds", asked)
        return self.tried[name].result

    def again(self, name: str) -> Outcome:
        """The outcome once more, in a fresh process, whatever is remembered of it."""
        return self._asked(name, again=True).result.outcome

    def under(self, name: str, settings: Mapping[str, Any]) -> Outcome:
        """The outcome of a build that was asked before, with these flags set."""
        found = self._asked(name, again=True, settings=settings)
        self.progress("builds", BuildAskedUnder(name, settings, found.result.outcome))
        return found.result.outcome

    def foresee(self, names: Sequence[str]) -> None:
        self.source.foresee([name for name in names if name not in self.tried])

    def _asked(
        self, name: str, again: bool = False, settings: Mapping[str, Any] = MappingProxyType({})
    ) -> TriedBuild:
        request = {
            "job": "build",
            "build": name,
            **self.source.identity(name),
            "repro": self._repro_digest,
            "repeat": self.question.repeat,
            "timeout_s": self.question.timeout_s,
            "machine": [environment.cpu_name(), environment.compiler()],
            "again": again,
            "settings": dict(settings),
        }
        key = key_of(request)
        if key not in self.journal.answers:
            if (reason := self.exhausted()) is not None:
                raise BudgetSpent(reason)
            self.journal.started(key, request)
            found = self._run(name, again, settings)
            result = found.result.to_json()
            self.journal.done(key, {"told": result, "commit": found.commit, "same_as": found.same_as})
        answer = self.journal.answers[key]
        return TriedBuild(name, BuildResult.from_json(answer["told"]), answer["commit"], answer["same_as"])

    def _run(self, name: str, again: bool, settings: Mapping[str, Any]) -> TriedBuild:
        # Asked again, what it is made of needs no other look at the wheel.
        commit = self.tried[name].commit if name in self.tried else self.source.commit(name)
        if not again and (other := self._of_commit(commit)) is not None:
            return other.standing_for(name)
        try:
            where = self.source.interpreter(name)
        except CannotInstall as error:
            result = BuildResult(Outcome.UNRESOLVED, reason=f"it cannot be had: {error}")
            return TriedBuild(name, result, commit)
        if commit is None:
            commit = history.commit_of_site(where.site)
            if not again and (other := self._of_commit(commit)) is not None:
                return other.standing_for(name)
        result = ask(where, self.repro, self.question.timeout_s, self.question.repeat, settings)
        if result.line and (why := self.source.strange(result.line)):
            result = BuildResult(Outcome.UNRESOLVED, result.line, why)
        return TriedBuild(name, result, commit or result.line.get("git"))

    def _of_commit(self, commit: str | None) -> TriedBuild | None:
        """The build of that commit that was run: nights without a change are built anew. One that could not
        be had stands for no other, and compilers are asked of one commit."""
        if self.question.compilers:
            return None
        ran = (tried for tried in self.tried.values() if tried.result.line)
        return next((tried for tried in ran if commit and tried.commit == commit), None)
