"""The test file of `--as-test`: run in a fresh process, and kept only if it fails there as it should."""

from __future__ import annotations

from bisector.core.protocol import Failed

from . import plain_python
from .answer import Answer
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


def make(session: Session, study: Study, shown: Shown, answer: Answer) -> None:
    """Write the test of what the repro shows, and name it in the answer if it fails; else a note says why."""
    path = session.run.test
    with session.clock.stage("minimize"):
        written = written_as_test(study, shown, answer)
        if isinstance(written, Failed):
            answer.notes.append(f"no test could be written: {written.reason}")
            return
        session.run.write_text(path, written.text)
        run = plain_python.start(["-c", _RUN, str(path), written.name], **CACHES_OFF)
        status, said = plain_python.ended(run, session.timeout_s)
    if status != FAILED:
        path.unlink()
        said = said or "it passes"
        answer.notes.append(f"the test of this case does not fail in a fresh process ({said})")
        return
    answer.test = path.name
    session.progress("test", f"{answer.test} fails: {said}")
