"""The whole search: builds of an index, then the commits between the last two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from git import Repo

from bisector.builds.catalogue import Catalogue
from bisector.builds.commits import CommitLine, Overlaid, Overlay
from bisector.builds.environments import Environments, Fetching
from bisector.builds.history import main_commit, opened
from bisector.builds.index import Wheel, wheels
from bisector.builds.line import Known, Line, Source
from bisector.builds.predicate import CannotInstall, Interpreter, installed
from bisector.core.endings import Ending, Problem
from bisector.core.found_builds import ChangedDefaults
from bisector.core.notes import CommitInBinary, CommitUnknown, Note, UncommittedLeftOut
from bisector.core.options import INTRODUCED, Question
from bisector.core.outcome import Outcome
from bisector.core.progress import IndexRead, Progress
from bisector.errors import NumbisectError
from bisector.runner.journal import Journal
from bisector.runner.rundir import RunDirectory

from .. import environment
from ..build_question import of_commits
from .bisection import FOUND, NOTHING, Found, bisect
from .build_test import BuildTest, TriedBuild
from .changed_defaults import changed_defaults
from .compilers import Compilers, compare

ENVIRONMENTS = "builds"  # folders of the run directory: of the environments,
OVERLAY = "overlay"  # and of the checkout that lies over a binary


@dataclass
class Part:
    """The search in one line of builds, or among compilers."""

    question: Question
    line: Known
    asking: BuildTest
    found: Found
    defaults: ChangedDefaults | None = None


@dataclass
class Searched:
    """parts: of the index, of commits, or of both. notes: why the search ended above commits."""

    parts: list[Part]
    notes: list[Note] = field(default_factory=list)

    def tried(self) -> list[TriedBuild]:
        """All builds that were asked, in that order."""
        return [tried for part in self.parts for tried in part.asking.tried.values()]

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
    exhausted: Callable[[], Ending | None]
    progress: Progress

    def run(self) -> Searched:
        """Raises BadOption and MissingTool for what the user can see to."""
        if self.question.compilers:
            return self._of_compilers()
        if of_commits(self.question):
            return self._of_commits()
        repo = opened(self.question.pytorch_repo) if self.question.pytorch_repo else None
        line, source = self._index()
        with closing(source):
            found = Searched([self._part(self.question, line, source)])
            if found.answer.found.status == FOUND:
                found.answer.defaults = changed_defaults(found.answer.found, found.answer.asking, source)
            if found.answer.found.status == FOUND and repo is not None:
                try:
                    self._between_builds(found, source, repo)
                except (NumbisectError, CannotInstall) as error:  # the range of builds stands
                    found.notes.append(CommitUnknown(Problem(str(error))))
            return found

    def _of_compilers(self) -> Searched:
        compilers = Compilers()
        asking = self._asking(self.question, compilers)
        found = compare(self.question.compilers, asking)
        return Searched([Part(self.question, compilers, asking, found)])

    def _of_commits(self) -> Searched:
        """Each over the binary that is installed."""
        question = self.question
        assert question.pytorch_repo is not None and question.before is not None
        repo = opened(question.pytorch_repo)
        identity = {"installed": environment.version("torch")}
        line, source = self._overlaid(repo, question.before, question.after, installed(), identity)
        return Searched([self._part(question, line, source)], notes=_uncommitted(repo))

    def _between_builds(self, found: Searched, source: Source, repo: Repo) -> None:
        """Single commits between two builds, each one's Python over the binary of the earlier build."""
        first = found.answer
        bracket = first.found.bracket
        assert bracket is not None
        tried = [first.asking.tried[name] for name in (bracket.before, bracket.after)]
        before, after = (main_commit(repo, t.commit or t.name) for t in tried)
        identity, binary = source.identity(bracket.before), source.interpreter(bracket.before)
        line, commits = self._overlaid(repo, before, after, binary, identity)
        good, bad = (before, after) if self.question.looked_for == INTRODUCED else (after, before)
        part = self._part(replace(self.question, good=good, bad=bad), line, commits)
        found.parts.append(part)
        found.notes += _uncommitted(repo)
        if part.found.status == NOTHING and part.asking(line.after) is Outcome.PASS:
            found.notes.append(CommitInBinary())
        elif part.found.status != FOUND and part.found.reason is not None:
            found.notes.append(CommitUnknown(part.found.reason))

    def _index(self) -> tuple[Line, Source]:
        """Releases and nightlies."""
        asked = self.question
        files: list[Wheel] = []
        for url in asked.index_urls:
            listed = wheels(url)
            self.progress("builds", IndexRead(url, len(listed)))
            files += listed
        version = environment.version("torch")
        catalogue = Catalogue(files, version)
        environments = Environments(self.folder.path / ENVIRONMENTS, asked.cache_bytes, asked.cpu_stubs)
        return catalogue, Fetching(catalogue, environments, asked.prefetch, version)

    def _overlaid(
        self, repo: Repo, before: str, after: str, binary: Interpreter, identity: Mapping[str, Any]
    ) -> tuple[CommitLine, Source]:
        line = CommitLine(repo, before, after)
        return line, Overlaid(Overlay(repo, binary, self.folder.path / OVERLAY, line.before), identity)

    def _part(self, question: Question, line: Line, source: Source) -> Part:
        asking = self._asking(question, source)
        return Part(question, line, asking, bisect(question, line, asking))

    def _asking(self, question: Question, source: Source) -> BuildTest:
        repro = Path(question.target)
        return BuildTest(question, repro, source, self.journal, self.exhausted, self.progress)


def _uncommitted(repo: Repo) -> list[Note]:
    return [UncommittedLeftOut()] if repo.is_dirty() else []
