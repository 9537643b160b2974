"""The whole search: builds of an index, then the commits between the last two; and whether the change is a
default that changed. The newer build is asked once more under the older defaults, first all of them, then one
by one: a divergence that comes with a build may have been there before, behind a setting that was off.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from git import Repo

from ... import processes
from ...builds.catalogue import Catalogue
from ...builds.commits import CommitLine, Overlaid, Overlay
from ...builds.environments import Environments, Fetching
from ...builds.history import main_commit, opened
from ...builds.index import Wheel, wheels
from ...builds.line import Known, Line, Source
from ...builds.predicate import CannotInstall, Interpreter, environment_of, installed
from ...core.budget import BudgetSpent
from ...core.endings import EndedByError, Ending
from ...core.found_builds import ChangedDefaults
from ...core.notes import CommitInBinary, CommitUnknown, Note, UncommittedLeftOut
from ...core.options import INTRODUCED, Question
from ...core.outcome import Outcome
from ...core.progress import IndexRead, Progress
from ...errors import NumbisectError
from ...runner.journal import Journal
from ...runner.rundir import RunDirectory
from .. import environment
from ..build_question import of_commits
from .bisection import FOUND, NOTHING, Found, bisect
from .build_test import BuildTest, TriedBuild
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
                    found.notes.append(CommitUnknown(EndedByError(str(error))))
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


MOST = 16  # settings that are tried one by one; the releases so far have changed fewer
_IMPORT_S = 300.0
# For another interpreter than numbisect's. Before torch 2.6 the tables hold the defaults themselves.
_PROGRAM = """
import importlib, json
found = {}
for family in ("inductor", "functorch", "dynamo"):
    try:
        settings = importlib.import_module("torch._" + family + ".config")._config
    except (ImportError, AttributeError):
        continue
    for name, entry in settings.items():
        default = getattr(entry, "default", entry)
        if isinstance(default, (bool, int, float, str, type(None))):
            found[family + "." + name] = default
print(json.dumps(found))
"""

_Defaults = Mapping[str, Any]


def _defaults(where: Interpreter) -> _Defaults:
    """By the names users write, of settings that are plain values; none where the build does not say."""
    with tempfile.TemporaryDirectory(prefix="numbisect-") as folder:
        command = [str(where.python), "-c", _PROGRAM]
        done = processes.run(command, _IMPORT_S, folder=folder, environment=environment_of(where, folder))
    last_line = next(reversed(done.out.splitlines()), "")
    found: _Defaults = json.loads(last_line) if done.status == 0 and last_line else {}
    return found


def _changed(older: _Defaults, newer: _Defaults) -> dict[str, Any]:
    """The settings that both have, with other defaults: those of the older one."""
    return {name: older[name] for name in sorted(older.keys() & newer.keys()) if older[name] != newer[name]}


def changed_defaults(found: Found, asking: BuildTest, source: Source) -> ChangedDefaults | None:
    """None where the defaults of one of the builds are not known, or it could not be asked again."""
    assert found.bracket is not None
    before, after = found.bracket.before, found.bracket.after
    try:
        known = [_defaults(source.interpreter(name)) for name in (before, after)]
        if not all(known):
            return None
        older = _changed(*known)
        newer = {name: known[1][name] for name in older}
        wanted = asking.result(before).outcome
        if not older or asking.under(after, older) is not wanted:
            return ChangedDefaults(older, newer)
        names = list(older)[:MOST] if len(older) > 1 else []
        alone = [(name,) for name in names if asking.under(after, {name: older[name]}) is wanted]
        return ChangedDefaults(older, newer, tuple(alone) or (tuple(older),))
    except (BudgetSpent, CannotInstall):
        return None
