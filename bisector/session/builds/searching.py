"""The whole search: builds of an index, then which side of the last two it is, then single commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from git import Repo

from bisector.builds.built import Built
from bisector.builds.catalogue import Catalogue
from bisector.builds.commits import CommitLine, Overlaid
from bisector.builds.environments import Environments
from bisector.builds.fetching import Fetching
from bisector.builds.history import main_commit, opened
from bisector.builds.index import Wheel, wheels
from bisector.builds.line import Line, Source
from bisector.builds.overlay import Overlay
from bisector.builds.predicate import CannotInstall, Interpreter, installed
from bisector.builds.swap import Crossed, Side
from bisector.errors import NumbisectError
from bisector.runner.journal import Journal
from bisector.runner.rundir import RunDirectory

from .. import environment
from .asking import Asking, Tried
from .bisecting import FOUND, Found, bisect
from .comparing import Compared, compared
from .question import INTRODUCED, Question
from .siding import Sided, sided

ENVIRONMENTS = "builds"  # folders of the run directory: of the environments,
OVERLAY = "overlay"  # of the checkout that lies over a binary,
CHECKOUT = "checkout"  # of the one that is built,
CROSSED = "crossed"  # and of the builds that are made of two
BUILD_LOG = "build.log"

Progress = Callable[[str, str], None]


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
