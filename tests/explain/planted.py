"""A program of many decisions whose divergence is planted: it follows from the decisions that are allowed, as
a file beside the script has it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from bisector import wire
from bisector.core.model import Candidate, ProbeResult
from bisector.core.options import Options
from bisector.explain.run import Session
from bisector.explain.study import Study
from bisector.report.reasons import words
from bisector.runner import rundir
from tests.scripts.planted import PLANT


@dataclass
class Planted:
    """The program in a worker. default: its default compile, which diverges under every truth."""

    session: Session
    study: Study
    script: Path
    default: ProbeResult = field(init=False)

    def __post_init__(self) -> None:
        self.plant([()])
        self.default = self.study.probe(Candidate())
        self.study = replace(self.study, signatures=self.default.signatures)

    def plant(self, culprits: Iterable[Iterable[str]], seen: bool = False) -> Study:
        """Diverge where all members of some culprit are allowed; seen: and where the compile met them."""
        truth = {"culprits": [sorted(c) for c in culprits], "seen": seen}
        self.script.with_name("truth.json").write_text(json.dumps(truth))
        # What an earlier truth answered must not answer for this one; the default compile is the same.
        answers = self.session.journal.answers
        for key in [key for key, answer in answers.items() if "outputs" in answer]:
            del answers[key]
        self.session.counts.clear()
        return replace(self.study)

    @property
    def probes(self) -> int:
        """Compiles since the truth was planted."""
        return self.session.counts["run"]


@contextmanager
def studied(
    folder: Path, program: str, jobs: int = 1, tolerance: float = 1e-3
) -> Iterator[tuple[Session, Study]]:
    """A script's first compiled call, in a worker."""
    script = folder / "script.py"
    script.write_text(program)
    options = Options(str(script), jobs=jobs, rtol=tolerance, atol=tolerance)
    run = rundir.create(str(script), str(folder / "run"), wire.dump_command(options))
    session = Session(run, options, lambda stage, text: None, words)
    try:
        yield session, session.study(session.lab.hello().calls[0])
    finally:
        session.close()


@contextmanager
def planted(folder: Path, program: str, jobs: int = 1) -> Iterator[Planted]:
    with studied(folder, PLANT + program, jobs) as (session, study):
        yield Planted(session, study, folder / "script.py")
