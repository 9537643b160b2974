"""The whole search: builds of an index, then on which side of the last two the change is (their Python or
their binary), then single commits; and whether the decision was there before the divergence.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from git import Repo

from bisector.builds.index import Wheel, wheels
from bisector.builds.line import Line, Source
from bisector.builds.overlay import Overlay
from bisector.builds.predicate import CannotInstall, Interpreter, installed
from bisector.builds.swap import Crossed, Side, side
from bisector.core.judge import BudgetSpent
from bisector.core.ladder import Bracket
from bisector.core.model import Outcome
from bisector.errors import NumbisectError
from bisector.runner.journal import Journal
from bisector.runner.rundir import RunDirectory

from ...builds.catalogue import Catalogue
from ...builds.commits import Built, CommitLine, Overlaid
from ...builds.environments import Environments, Fetching
from ...builds.history import main_commit, opened
from .. import environment
from ..build_question import INTRODUCED, Question
from .asking import FIXED_OPTION, Asking, Tried
from .bisecting import FOUND, Found, bisect

ENVIRONMENTS = "builds"  # folders of the run directory: of the environments,
OVERLAY = "overlay"  # of the checkout that lies over a binary,
CHECKOUT = "checkout"  # of the one that is built,
CROSSED = "crossed"  # and of the builds that are made of two
BUILD_LOG = "build.log"

Progress = Callable[[str, str], None]
_SAYS = {
    Side.PYTHON: "",
    Side.BINARY: "the change needs a build: it comes with the binary, whichever Python is over it",
    Side.EITHER: "the later Python and the later binary bring it each by itself",
    Side.BOTH: "it takes the later Python and the later binary together",
}


@dataclass
class Part:
    """The search in one line of builds."""

    question: Question
    line: Line
    asking: Asking
    found: Found


@dataclass
class Searched:
    """parts: of the index, of commits, or of both. notes: why the search ended above commits."""

    parts: list[Part]
    sided: Sided | None = None
    compared: Compared | None = None
    notes: list[str] = field(default_factory=list)

    def tried(self) -> list[Tried]:
        """All builds that were asked, in that order."""
        crossed = list(self.sided.tried) if self.sided else []
        first, *rest = [list(part.asking.tried.values()) for part in self.parts]
        return [*first, *crossed, *(tried for of_one in rest for tried in of_one)]

    @property
    def answer(self) -> Part:
        """The finest that found something; where none did, the first."""
        found = [part for part in self.parts if part.found.status == FOUND]
        return found[-1] if found else self.parts[0]


@dataclass
class Search:
    """exhausted: why no further build may be asked, or None."""

    folder: RunDirectory
    question: Question
    journal: Journal
    exhausted: Callable[[], str | None]
    progress: Progress

    def run(self) -> Searched:
        """Raises BadOption and MissingTool for what the user can see to."""
        if self.question.of_commits:
            return self._of_commits()
        repo = opened(self.question.pytorch_repo) if self.question.pytorch_repo else None
        line, source = self._index()
        with closing(source):
            found = Searched([self._part(self.question, line, source)])
            if found.answer.found.status == FOUND and not self.question.every:
                self._after_the_builds(found, source, repo)
            return found

    def _of_commits(self) -> Searched:
        """Each one built, or over the binary that is installed."""
        question = self.question
        assert question.pytorch_repo is not None and question.before is not None
        repo = opened(question.pytorch_repo)
        if question.build_command is not None:
            line, source = self._built(repo, question.before, question.after, question.build_command)
        else:
            identity = {"installed": environment.version("torch")}
            line, source = self._overlaid(repo, question.before, question.after, installed(), identity)
        found = Searched([self._part(question, line, source)], notes=_uncommitted(repo))
        self._compare(found)
        return found

    def _after_the_builds(self, found: Searched, source: Source, repo: Repo | None) -> None:
        bracket = found.answer.found.bracket
        assert bracket is not None
        crossed = Crossed(source, self.folder.path / CROSSED)
        found.sided = sided(self._asking(self.question, crossed), crossed, bracket)
        if found.sided.side is not Side.PYTHON:
            found.notes.append(f"the commit, without a build of each: {found.sided.reason}")
        if repo is not None:
            try:
                self._between_builds(found, source, repo)
            except (NumbisectError, CannotInstall) as error:  # the range of builds stands
                found.notes.append(f"the commit: {error}")
        self._compare(found)

    def _between_builds(self, found: Searched, source: Source, repo: Repo) -> None:
        """Single commits between two builds: over the binary of the earlier one where the change is Python's,
        else built."""
        assert found.sided is not None
        command = self.question.build_command
        if found.sided.side is not Side.PYTHON and command is None:
            return
        first = found.answer
        bracket = first.found.bracket
        assert bracket is not None
        tried = [first.asking.tried[name] for name in (bracket.before, bracket.after)]
        before, after = (main_commit(repo, t.commit or t.name) for t in tried)
        if found.sided.side is Side.PYTHON:
            identity, binary = source.identity(bracket.before), source.interpreter(bracket.before)
            line, commits = self._overlaid(repo, before, after, binary, identity)
        else:
            assert command is not None
            line, commits = self._built(repo, before, after, command)
        good, bad = (before, after) if self.question.looked_for == INTRODUCED else (after, before)
        part = self._part(replace(self.question, good=good, bad=bad), line, commits)
        found.parts.append(part)
        found.notes += _uncommitted(repo)
        if part.found.status != FOUND:
            found.notes.append(f"the commit: {part.found.reason}")

    def _index(self) -> tuple[Line, Source]:
        """Releases and nightlies."""
        asked = self.question
        files: list[Wheel] = []
        for url in asked.index_urls:
            listed = wheels(url)
            self.progress("index", f"{url} has {len(listed)} versions for this Python")
            files += listed
        version = environment.version("torch")
        catalogue = Catalogue(files, version)
        environments = Environments(self.folder.path / ENVIRONMENTS, asked.cache_bytes, asked.cpu_stubs)
        return catalogue, Fetching(catalogue, environments, asked.prefetch, version)

    def _overlaid(
        self, repo: Repo, before: str, after: str, binary: Interpreter, identity: Mapping[str, Any]
    ) -> tuple[Line, Source]:
        line = CommitLine(repo, before, after)
        return line, Overlaid(Overlay(repo, binary, self.folder.path / OVERLAY, line.before), identity)

    def _built(self, repo: Repo, before: str, after: str, command: str) -> tuple[Line, Source]:
        line = CommitLine(repo, before, after, paths=(), limit=None)
        folder, log = self.folder.path / CHECKOUT, self.folder.path / BUILD_LOG
        return line, Built(repo, command, folder, log, line.before)

    def _part(self, question: Question, line: Line, source: Source) -> Part:
        asking = self._asking(question, source)
        return Part(question, line, asking, bisect(question, line, asking))

    def _asking(self, question: Question, source: Source) -> Asking:
        repro = Path(question.target)
        return Asking(question, repro, source, self.journal, self.exhausted, self.progress)

    def _compare(self, found: Searched) -> None:
        part = found.answer
        if part.found.status == FOUND and part.found.bracket is not None:
            found.compared = compared(part.asking, part.found.bracket)


def _uncommitted(repo: Repo) -> list[str]:
    return ["what is not committed in the clone: each commit was taken as it is"] if repo.is_dirty() else []


@dataclass(frozen=True)
class Sided:
    """side: None where the crossed builds cannot tell. reason: why no single commit can be looked for without
    a build, empty where it can; tried: the crossed builds."""

    side: Side | None
    reason: str
    tried: Sequence[Tried]


def sided(asking: Asking, crossed: Crossed, bracket: Bracket) -> Sided:
    """Two runs more. asking: of the crossed builds."""
    newer_python = crossed.named(python=bracket.after, binary=bracket.before)
    newer_binary = crossed.named(python=bracket.before, binary=bracket.after)
    try:
        found = side(asking(newer_python), asking(newer_binary))
    except BudgetSpent as spent:
        return Sided(None, spent.reason, list(asking.tried.values()))
    tried = list(asking.tried.values())
    if found is not None:
        return Sided(found, _SAYS[found], tried)
    unable = next(t for t in tried if t.told.outcome is Outcome.UNRESOLVED)
    return Sided(None, f"{unable.name} cannot tell: {unable.reason}", tried)


class Came(enum.Enum):
    """What the change did."""

    INTRODUCED = "introduced"  # the decision that the repro's fix undoes
    EXPOSED = "exposed"  # it was there, and something else made it visible


@dataclass(frozen=True)
class Compared:
    """came: None where it is not known, for the reason."""

    came: Came | None
    reason: str


def compared(asking: Asking, bracket: Bracket) -> Compared | None:
    """The last build without the divergence, run with the repro's fix: where that moves bits of the compiled
    result, the decision was taken there too. None where the question or the repro has no fix to try."""
    if asking.question.looked_for != INTRODUCED or FIXED_OPTION not in asking.repro.read_text():
        return None
    plain = asking.told(bracket.before)
    try:
        fixed = asking.fixed(bracket.before)
    except BudgetSpent as spent:
        return Compared(None, spent.reason)
    before, after = (told.line.get("compiled") for told in (plain, fixed))
    if fixed.outcome is not Outcome.PASS or before is None or after is None:
        why = fixed.reason or "it gave no results to compare"
        return Compared(None, f"with the repro's fix {bracket.before} cannot tell: {why}")
    if before != after:
        return Compared(Came.EXPOSED, f"the fix moves bits of what {bracket.before} compiles, too")
    return Compared(Came.INTRODUCED, f"the fix changes nothing that {bracket.before} compiles")
