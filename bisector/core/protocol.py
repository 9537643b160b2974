"""What the command line's process asks of a worker, and what comes back: one frozen type for each.

A request names its answer's type. The worker dispatches on the type of a request, the journal holds both as
JSON (`bisector.wire`), and `explain.study` makes nearly all of them. An answer may always be `Failed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from bisector.core.fix import PlainFix

from .case import Case
from .criterion import Criterion
from .decision import DecisionId
from .evidence import Evidence
from .graphinfo import GraphInfo
from .model import Candidate, Json, Measurement, Signature, Tolerance
from .outcome import Outcome
from .recorded import Recorded
from .reuse import Reuses
from .shares import Shares
from .steps import Steps
from .trace import Reach, Trace

Answer = TypeVar("Answer", covariant=True)


@dataclass(frozen=True)
class Failed:
    """There is no answer. reason: why, in one line ("timeout after 60 s", "crash: signal 11 (SIGSEGV)")."""

    reason: str


class CannotAnswer(Exception):
    """Raised by a job that has no answer; its text is the reason of the Failed that comes instead."""


@dataclass(frozen=True)
class Request(Generic[Answer]):
    """A question to a worker. job: its name in the journal; answers: the type of its answer."""

    job: ClassVar[str]
    answers: ClassVar[type]

    def __init_subclass__(cls, job: str = "", answers: type = object) -> None:
        super().__init_subclass__()
        if job:
            cls.job, cls.answers = job, answers
            REQUESTS[job] = cls


REQUESTS: dict[str, type[Request[Any]]] = {}


@dataclass(frozen=True)
class About:
    """What a request is about; none of it can be left out.

    call: index of the recorded call. case: the edits of its graph. train: whether gradients are compared too;
    None: as the script did. hooks_off: kinds of decision whose hooks do not work here, with the reason; they
    are neither offered nor denied.
    """

    call: int
    case: Case
    train: bool | None
    hooks_off: Mapping[str, str]


@dataclass(frozen=True)
class AboutCase(Request[Answer]):
    """A request about one case of one recorded call."""

    about: About


# -- the subject ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record(Request[Recorded], job="hello", answers=Recorded):
    """Run the target and record what it compiles. A worker says it once, unasked."""


# -- probes --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunProbe(AboutCase[Measurement], job="probe", answers=Measurement):
    """Compile and run one candidate. trial: counts repetitions, which are asked to run again. runs: of the
    compiled program, in one process; fewer where they take long."""

    candidate: Candidate
    trial: int = 0
    runs: int = 1


@dataclass(frozen=True)
class RunVerdict(AboutCase[Evidence], job="verdict", answers=Evidence):
    """Measure what a verdict needs."""


@dataclass(frozen=True)
class OfCalls:
    """One measurement for each call that was asked about, in their order."""

    measurements: tuple[Measurement, ...]


@dataclass(frozen=True)
class RunCalls(Request[OfCalls], job="calls", answers=OfCalls):
    """Compile a graph as it is, once, and run it on the inputs of several of its calls. There is no answer
    where one of them raises. calls: their indices. train: as of About."""

    calls: tuple[int, ...]
    train: bool | None


PROBES = (RunProbe, RunCalls, RunVerdict)  # what compiles a case and measures its runs


@dataclass(frozen=True)
class Traced:
    """The compiled run node by node, and the outputs of the compile that was followed, against eager's."""

    trace: Trace
    measurement: Measurement


@dataclass(frozen=True)
class RunTrace(AboutCase[Traced], job="trace", answers=Traced):
    """Follow a candidate's compiled run. left_out: nodes whose values are not returned. reach: of a subject
    that is trained, whether its gradients are followed too. shares: what the errors carry to the outputs."""

    candidate: Candidate
    left_out: tuple[str, ...] = ()
    reach: Reach = Reach.FORWARD
    shares: Shares = Shares.NONE


@dataclass(frozen=True)
class ExplainReuse(AboutCase[Reuses], job="reuse", answers=Reuses):
    """Of a script: which change since the compile makes calls that run what an earlier one compiled give
    something else than eager. numbers: of the calls, from 1."""

    numbers: tuple[int, ...]
    criterion: Criterion


@dataclass(frozen=True)
class ListSteps(AboutCase[Steps], job="steps", answers=Steps):
    """Of a script: the steps of its functions that Dynamo traces."""


@dataclass(frozen=True)
class Varying:
    """The first node whose value is not the same in all runs of one compiled program."""

    node: str


@dataclass(frozen=True)
class FindVarying(AboutCase[Varying], job="varying", answers=Varying):
    """Run the default compile many times, its intermediate values returned."""


@dataclass(frozen=True)
class Ratios:
    """Run times of a candidate over those of the default compile, one for each round."""

    ratios: tuple[float, ...]


@dataclass(frozen=True)
class TimeSlowdown(AboutCase[Ratios], job="slowdown", answers=Ratios):
    """Time a candidate and the default in turn. seconds: for all rounds together."""

    candidate: Candidate
    seconds: float


@dataclass(frozen=True)
class Draw:
    """Outcomes on one draw of input values: by default, and with each candidate."""

    default: Outcome
    fixed: tuple[Outcome, ...]


@dataclass(frozen=True)
class Draws:
    """One for each draw."""

    draws: tuple[Draw, ...]


@dataclass(frozen=True)
class TryOtherInputs(AboutCase[Draws], job="elsewhere", answers=Draws):
    """Run candidates on inputs that are drawn anew from the recorded ones' values. draws: how often."""

    candidates: tuple[Candidate, ...]
    criterion: Criterion
    draws: int


@dataclass(frozen=True)
class Steered:
    """The case on other input values; None where no such values were found."""

    case: Case | None


@dataclass(frozen=True)
class SteerInputs(AboutCase[Steered], job="steer", answers=Steered):
    """Look for input values on which each candidate gives the outcome that is wanted of it.

    tolerances: (rtol, atol) by dtype. magnifying: factors where no step is found.
    """

    wanted: tuple[tuple[Candidate, Outcome], ...]
    tolerances: Mapping[str, Tolerance]
    magnifying: tuple[float, ...]


@dataclass(frozen=True)
class SimplifyInputs(AboutCase[Steered], job="simplify", answers=Steered):
    """Look for the simplest input values on which each candidate gives the outcome that is wanted of it; each
    is compiled once.

    simpler: by input, the values to try in order, as `Case.values` has them. criterion, signatures: what the
    case is held to.
    """

    wanted: tuple[tuple[Candidate, Outcome], ...]
    simpler: tuple[tuple[str, tuple[str, ...]], ...]
    criterion: Criterion
    signatures: tuple[Signature, ...]


# -- generated code ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GeneratedCode:
    """digest: equal for equal code, None where that is not known. unread: of the flags that were named
    those that the compile did not read, so that they cannot change it."""

    digest: str | None
    unread: frozenset[str] = frozenset()


@dataclass(frozen=True)
class DigestCode(AboutCase[GeneratedCode], job="code", answers=GeneratedCode):
    """Generate a candidate's code; nothing is built or run. names: flags whose reads are to be recorded."""

    candidate: Candidate
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """Generated code without comments and paths; None where it is not known."""

    text: str | None


@dataclass(frozen=True)
class ShowSource(AboutCase[Source], job="source", answers=Source):
    """Generate a candidate's code, to read; nothing is built or run."""

    candidate: Candidate


# -- the graph, flags and torch itself -----------------------------------------------------------------


@dataclass(frozen=True)
class DescribeGraph(AboutCase[GraphInfo], job="info", answers=GraphInfo):
    """The nodes of a case with shapes and places."""


@dataclass(frozen=True)
class Setting:
    """A flag around a call. env: the environment variable torch reads its default from, None without one."""

    value: Json
    env: str | None = None


@dataclass(frozen=True)
class Settings:
    """By flag; those that this torch does not have are missing."""

    values: Mapping[str, Setting]


@dataclass(frozen=True)
class ReadFlags(AboutCase[Settings], job="flags", answers=Settings):
    """The named flags as they stand around the call."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Formulas:
    """Torch's own `file:line` of the formula behind a `lower` or `decomp` decision; "" where unknown."""

    places: Mapping[str, str]


@dataclass(frozen=True)
class FindFormulas(AboutCase[Formulas], job="formulas", answers=Formulas):
    """Where torch writes the formulas behind these decisions."""

    ids: tuple[DecisionId, ...]


@dataclass(frozen=True)
class HooksTested:
    """off: kinds whose hooks do not work with this torch, with the reason. not_here: kinds that the
    subject's devices do not have."""

    off: Mapping[str, str]
    not_here: Mapping[str, str]


@dataclass(frozen=True)
class SelfTest(Request[HooksTested], job="selftest", answers=HooksTested):
    """Try every hook on a small program of its own."""


@dataclass(frozen=True)
class Done:
    """An answer without content."""


@dataclass(frozen=True)
class WarmUp(AboutCase[Done], job="warm", answers=Done):
    """Compile the case in the worker itself, for the caches that this fills for later probes."""


# -- scripts and lines to paste ------------------------------------------------------------------------


@dataclass(frozen=True)
class RunPasted(AboutCase[Measurement], job="pasted", answers=Measurement):
    """The default compile after a line of plain torch."""

    line: str


@dataclass(frozen=True)
class ScriptSpec:
    """How a case is written down.

    header: lines of the comment on top. decisions: those whose nodes must be found in the function. fix: what
    `--fixed` does, None for nothing. seed: of the random state, or None. raises: the type of exception that
    one of eager and compiled raises, "" where their values are compared.
    """

    header: tuple[str, ...]
    decisions: tuple[DecisionId, ...]
    criterion: Criterion
    fix: PlainFix | None
    seed: int | None
    raises: str


@dataclass(frozen=True)
class Repro:
    """A repro's text, and that of its function alone, where it is a graph."""

    text: str
    function: str = ""


@dataclass(frozen=True)
class WriteRepro(AboutCase[Repro], job="repro", answers=Repro):
    """Write the repro of a case."""

    spec: ScriptSpec
