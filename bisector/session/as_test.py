"""The test file of `--as-test`: run in a fresh process, and kept only if it fails there as it should."""

from __future__ import annotations

from dataclasses import dataclass

from bisector.core.protocol import Failed

from .answer import Answer
from .plain_runs import SCRIPT
from .run import Session
from .study import Study
from .writing import Shown, written_as_test

# Exit status where the test failed as it should: any error but that of torch.testing.assert_close is no
# divergence, and an assertion inside the compiler is another error.
FAILED = 3
_RUN = f"""\
import runpy, sys, traceback
import torch.testing._comparison as comparison
try:
    runpy.run_path(sys.argv[1])[sys.argv[2]]()
except BaseException as error:
    print(f"{{type(error).__name__}}: {{error}}".splitlines()[0])
    raised_in = traceback.extract_tb(error.__traceback__)[-1].filename
    compared = isinstance(error, AssertionError) and raised_in == comparison.__file__
    sys.exit({FAILED} if compared else 125)
"""
CACHES_OFF = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}


@dataclass(frozen=True)
class Tested:
    """file: of the test, None where there is none; note: then why."""

    file: str | None = None
    note: str | None = None


def make(session: Session, study: Study, shown: Shown, answer: Answer) -> Tested:
    """Write the test of what the repro shows, and keep it if it fails."""
    path = session.run.test
    with session.clock.stage("minimize"):
        written = written_as_test(study, shown, answer)
        if isinstance(written, Failed):
            return Tested(note=f"no test could be written: {written.reason}")
        session.run.write_text(path, written.text)
        run = session.plain.start(path, ["-c", _RUN, SCRIPT, written.name], **CACHES_OFF)
        ended = session.plain.ended(run, session.timeout_s)
    if ended.status != FAILED:
        path.unlink()
        said = ended.said or "it passes"
        return Tested(note=f"the test of this case does not fail in a fresh process ({said})")
    session.progress("test", f"{path.name} fails: {ended.said}")
    return Tested(path.name)
