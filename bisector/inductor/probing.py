"""A probe: one candidate compiled and run on one case, measured against eager; or its code alone."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import torch
import torch._functorch.config as functorch_config
from torch._dynamo.exc import RestartAnalysis
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.exc import OperatorIssue

from ..core.case import WHOLE, Case
from ..core.model import Candidate, Measurement, OutputMeasurement, Raised
from ..errors import NO_ROOM, first_line
from . import compilation, control, source_capture
from .capture.record import Call
from .execute import (
    NotCompiled,
    Outputs,
    Subject,
    active,
    compile_subject,
    control_for,
    eager_program,
    measured,
    prepare,
    run,
)
from .hooks import cudagraph
from .kernels import ENTRY
from .measure import Exact
from .repeats import repeated

Program = Callable[..., Any]
Lookup = Callable[[str], Measurement | None]  # what a program of this digest gave before

Watch = Callable[[Program, Outputs], None]


def _nothing_known(digest: str) -> None:
    return None


def probe(
    call: Call,
    case: Case,
    candidate: Candidate,
    train: bool | None,
    known: Lookup = _nothing_known,
    runs: int = 1,
) -> Measurement:
    """Compile and run one candidate on one case; errors of either become Measurement.error.

    known: what is measured already of programs compiled from this case; such a one is not run again. runs: of
    the compiled program.
    """
    started = time.perf_counter()
    try:
        subject = prepare(call, case, train)
        eager = eager_run(subject)
    except Exception as error:  # noqa: BLE001 - a case that eager cannot run is unresolved, whatever it raised
        return Measurement(error=f"eager fails: {first_line(error)}")
    others: list[tuple[OutputMeasurement, ...]] = []

    def again(program: Program, first: Outputs) -> None:
        if isinstance(eager, dict):
            reruns = repeated(subject, program, eager, first, runs)
            others.extend(other.against_eager.outputs for other in reruns.others)

    watch = again if runs > 1 else None
    found = compiled_measurement(subject, candidate, eager, known=known, watch=watch)
    return replace(found, seconds=time.perf_counter() - started, others=tuple(others))


def probe_calls(calls: Sequence[Call], train: bool | None) -> list[Measurement]:
    """The default compile of a graph, which is the same for all calls under equal settings, run on the inputs
    of each. Raises what the compiler or a run raises."""
    decisions, program = control_for(Candidate()), None
    found: list[Measurement] = []
    with source_capture.collected() as sources:
        for call in calls:
            subject = prepare(call, WHOLE, train)
            eager = run(subject, eager_program(subject))
            with active(decisions):
                program = program or _warmed(subject, Candidate())
                found.append(measured(subject, eager, run(subject, program)))
    digest = source_capture.digest(sources)
    return [measurement_of(one, decisions, digest) for one in found]


def eager_run(subject: Subject) -> Outputs | Exception:
    """What eager gives; of a call that raised when the script made it, what it raises now."""
    try:
        return run(subject, eager_program(subject))
    except Exception as error:
        if subject.call.raised and is_of_the_program(error):
            return error
        raise


def compiled_measurement(
    subject: Subject,
    candidate: Candidate,
    eager: Outputs | Exception,
    reference: Mapping[str, Exact] | None = None,
    known: Lookup = _nothing_known,
    watch: Watch | None = None,
) -> Measurement:
    """Compile under the candidate, run, and measure against what eager gave, or raised.

    watch: is given the compiled program and the outputs of its run, to run it again.
    """
    decisions = control_for(candidate)
    with source_capture.collected(known) as sources:
        try:
            with active(decisions):
                program = _warmed(subject, candidate)
                compiled: Outputs | Exception = run(subject, program)
                if watch is not None and isinstance(eager, dict) and isinstance(compiled, dict):
                    watch(program, compiled)
        except NotCompiled as error:
            if error.cause is None or not is_of_the_program(error.cause):
                return Measurement(error=str(error))
            compiled = error.cause
        except Exception as error:  # noqa: BLE001 - whatever the compiled program raises is its answer
            if not is_of_the_program(error):
                return Measurement(error=f"compiled program fails: {first_line(error)}")
            compiled = error
        except source_capture.SourceComplete:
            digest = source_capture.digest(sources)
            return measurement_of(known(digest) or Measurement(), decisions, digest)
    if isinstance(eager, Exception) or isinstance(compiled, Exception):
        raised = [side if isinstance(side, Exception) else None for side in (eager, compiled)]
        # Without a digest: what was generated before the exception is not the program.
        return measurement_of(Measurement((_compare_raised(*raised),)), decisions, "")
    found = measured(subject, eager, compiled, reference)
    return measurement_of(found, decisions, source_capture.digest(sources))


WARM_UPS = 2  # runs before a recorded graph is replayed: see `cudagraph.recorded`


def _warmed(subject: Subject, candidate: Candidate) -> Program:
    """The compiled program, run until CUDA graphs that it has are replayed, as a user's program has them."""
    before = cudagraph.recorded()
    program = compile_subject(subject, candidate)
    for _ in range(WARM_UPS if cudagraph.recorded() > before else 0):
        run(subject, program)
    return program


def measurement_of(found: Measurement, decisions: control.Control | None, digest: str) -> Measurement:
    """The measurement of a compile, with the decisions that it came to."""
    return replace(
        found,
        decisions=decisions.decisions() if decisions is not None else (),
        vanished=tuple(decisions.vanished()) if decisions is not None else (),
        code=digest,
    )


# -- the code that Inductor generates under a candidate, which is neither built nor run --------------------


_BUILDERS = ("cpp", "cpp_pybinding", "triton")  # what a generated module calls with the source of a kernel


def code_of(call: Call, case: Case, candidate: Candidate, train: bool | None) -> str | None:
    """The digest of the code; None where it is not known. Where it is the default's, the candidate is known
    to change nothing that runs here but what a compiler's command line or a library does."""
    sources = sources_of(call, case, candidate, train)
    return source_capture.digest(sources) if sources else None


def sources_of(call: Call, case: Case, candidate: Candidate, train: bool | None) -> list[str]:
    """The code of each graph, of the backward one too where there is one; none where it is not known."""
    subject = prepare(call, case, train)
    at_once = compilation.BACKWARD_AT_ONCE
    if subject.train and at_once not in functorch_config._config:  # type: ignore[attr-defined]
        return []  # the backward graph would be compiled when it runs
    with ExitStack() as stack:
        sources = stack.enter_context(source_capture.collected())
        stack.enter_context(active(control_for(candidate), threads=1))
        stack.enter_context(_nothing_built())
        if subject.train:
            stack.enter_context(functorch_config.patch({at_once: True}))
        try:
            compile_subject(subject, candidate)
        except NotCompiled:
            return []  # a probe says why
    return sources


@contextmanager
def _nothing_built() -> Iterator[None]:
    """Generated modules are loaded with kernels that nobody may call."""
    with ExitStack() as stack:
        for name in _BUILDERS:
            stack.enter_context(mock.patch.object(AsyncCompile, name, _unbuilt))
        yield


def _unbuilt(*args: Any, **kwargs: Any) -> Callable[..., NoReturn]:
    def kernel(*args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError("a kernel that was not built is called")

    return kernel


# -- what a run raised: of eager and compiled one may raise where the other returns ------------------------


_COMPILER_ERROR = re.compile(r"^\S+:\d+:\d+: (?:fatal )?error: (.*)$", re.MULTILINE)
_MOST_TEXT = 200  # characters of a compiler's error
_EXCEPTION = "exception"  # the path under which what was raised stands among the outputs
# The last three are of a kernel's file of which another process, which was killed, had written a part.
_OF_THE_MACHINE = (
    *NO_ROOM, "Cannot allocate memory", "Killed", "can't allocate memory", "file too short",
    "invalid ELF header", "file truncated",
)  # fmt: skip
# A file of generated code is named by its hash (torch/_inductor/codecache.py, code_hash); one of kernels that
# are built together by a number, in a temporary folder of ours (serving/building.py).
_GENERATED = re.compile(r"[^\s'\"]*/(?:c[a-z2-7]{50,52}\.\w|numbisect-\w{8}/\d+\.cpp)[^\s,'\"]*")
_OURS = str(Path(__file__).resolve().parents[1])


def _root_of(error: BaseException) -> BaseException:
    """What was raised first: the compiler wraps it (torch/_inductor/exc.py, torch/_dynamo/exc.py)."""
    while True:
        inner = getattr(error, "inner_exception", None)
        if inner is None and isinstance(error, OperatorIssue):
            inner = error.__cause__
        if not isinstance(inner, BaseException):
            return error
        error = inner


def describe_error(error: BaseException) -> str:
    """Type and first line of what was raised first; where that has no text, of what it came in. Of a failed
    C++ compile also the compiler's first error."""
    root = _root_of(error)
    message = first_line(root) if str(root).strip() else f"{type(root).__name__} ({first_line(error)})"
    message = ENTRY.sub("kernel", _GENERATED.sub("the generated code", message))
    found = _COMPILER_ERROR.search(str(root))
    return f"{message} ({found[1][:_MOST_TEXT]})" if found else message


def is_of_the_program(error: BaseException) -> bool:
    """Whether the program or its compiler raised it: not for want of memory or room, and not numbisect."""
    root = _root_of(error)
    # A restart is what the compiler says to Dynamo, not to the program.
    if isinstance(root, (MemoryError, torch.OutOfMemoryError, RestartAnalysis)):
        return False
    if any(text in str(error) for text in _OF_THE_MACHINE):
        return False
    frames = traceback.extract_tb(root.__traceback__)
    return not frames or not frames[-1].filename.startswith(_OURS)


def _compare_raised(eager: BaseException | None, compiled: BaseException | None) -> OutputMeasurement:
    """How the exceptions of two runs stand to each other; None for one that returned."""
    messages = [None if error is None else describe_error(error) for error in (eager, compiled)]
    types = {type(_root_of(error)) for error in (eager, compiled) if error is not None}
    raised = Raised(eager=messages[0], compiled=messages[1], alike=None not in messages and len(types) == 1)
    return OutputMeasurement(0, _EXCEPTION, "", (), 1, raised=raised)
