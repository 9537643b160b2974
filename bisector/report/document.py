"""What result.json holds, as types: a report reads them, and the JSON Schema is made of them.

docs/result-schema.md explains each field. None: could not be established. A trailing underscore is no part
of a name in JSON (`class_` is `class`); numbers that are not finite are the strings "inf", "-inf" and "nan".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from bisector.core.backends import OWN, RUNGS
from bisector.core.compared import Compared
from bisector.core.cost import Probes, Seconds
from bisector.core.decision import DecisionId
from bisector.core.fix import Elsewhere
from bisector.core.followed import FollowedNode
from bisector.core.found_builds import FoundBuilds
from bisector.core.outcome import Outcome
from bisector.core.reuse import Reuse
from bisector.core.standing import Value
from bisector.core.steps import Needed
from bisector.core.verdict import Rule, VerdictClass

from .bounds import (
    AnyDecision,
    Bounds,
    ByDecision,
    ByHook,
    ByKind,
    Count,
    DecisionSet,
    Fraction,
    Kind,
    Place,
    RelativePath,
)

VERSION = 1  # goes up where a field changes its meaning or goes away
LEFT_OUT = {"left out": True}  # metadata of a field that JSON has only where it is not its default

DIVERGING = frozenset({
    VerdictClass.COMPILED_WORSE, VerdictClass.COMPILED_BETTER, VerdictClass.EQUALLY_ACCURATE,
    VerdictClass.AMPLIFIED_ROUNDING, VerdictClass.ELIDED_ROUNDING, VerdictClass.RAISES, VerdictClass.RANDOM,
    VerdictClass.UNDEFINED,
})  # fmt: skip

Settings = Annotated[Mapping[str, Any], Bounds(minProperties=1)]
Backend = Annotated[str, Bounds(enum=[*RUNGS, OWN])]


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Versions and the machine. isa: the vector instructions that torch uses. cxx: the C++ compiler."""

    torch: str | None
    torch_git: str | None
    triton: str | None
    python: str | None
    os: str | None
    cpu: str | None
    isa: str | None
    gpu: str | None
    cxx: str | None
    numbisect: str


@dataclass(frozen=True, kw_only=True)
class Output:
    """An output of the call that was studied; the fields as of core.model.OutputMeasurement."""

    index: Count
    path: str
    dtype: str
    shape: tuple[Count, ...]
    n_diff: Count
    numel: Count
    max_abs: float | None
    max_rel: float | None
    max_ulp: Count | None
    nonfinite_mismatches: Count
    rms_error_eager: float | None
    rms_error_compiled: float | None

    @property
    def differs(self) -> bool:
        """Whether some bit differs."""
        return bool(self.n_diff or self.nonfinite_mismatches)


@dataclass(frozen=True, kw_only=True)
class Held:
    """What differences are allowed. tolerances: rtol and atol of each output. measure: of a user's own
    criterion, None of tolerances."""

    source: str
    tolerances: tuple[tuple[float, float], ...]
    signed_zero: bool
    measure: str | None


@dataclass(frozen=True, kw_only=True)
class Proof:
    """experiment: what decided the class. reference: whether the float64 run is one of the same program:
    `valid`, or why there is none; None where none was asked for."""

    experiment: str
    compared: Compared
    reference: str | None


@dataclass(frozen=True, kw_only=True)
class VerdictPart:
    """The verdict with what was measured. first_bad_backend: the first that diverges."""

    class_: VerdictClass
    reason: str
    rule: Rule
    figures: Mapping[str, float]
    proof: Proof
    first_bad_backend: Backend | None
    outputs: tuple[Output, ...]
    criterion: Held

    @property
    def differing(self) -> tuple[Output, ...]:
        """The outputs that are not equal bit for bit."""
        return tuple(output for output in self.outputs if output.differs)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The node at which the divergence arises, and its error there on equal inputs."""

    node: str
    op: str | None
    file: str | None
    line: int | None
    local_error_ulp: float | None


@dataclass(frozen=True, kw_only=True)
class Amplifier:
    """The node at which the divergence grows most."""

    node: str
    op: str | None
    gain: float | None


@dataclass(frozen=True, kw_only=True)
class Graph:
    """outputs: by path, the node that it is."""

    nodes: tuple[FollowedNode, ...]
    outputs: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Repair:
    """Decisions whose denial makes compiled agree."""

    decisions: DecisionSet
    confirmed: bool
    removed_fraction: Fraction | None


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """alone: with nothing but the cause enabled. without_each: with all enabled but each member in turn."""

    alone: Outcome
    without_each: tuple[Outcome, ...]


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Decisions that are enough to diverge, all of them needed."""

    decisions: DecisionSet
    confirmed: bool
    evidence: Evidence


@dataclass(frozen=True, kw_only=True)
class Fix:
    """set_: the flags of a fix by flags. slowdown_spread: quartiles of the slowdown. paste: lines of Python,
    none where plain torch has no setting for it. same_program: the ID of an earlier fix that makes the same
    program."""

    id: Annotated[str, Bounds(minLength=1)]
    kind: Annotated[str, Bounds(enum=["flag", "pass", "lowering", "decomposition", "backend", "decision"])]
    set_: Settings | None
    removed_fraction: Fraction | None
    residual_max_abs: float | None
    slowdown: float | None
    slowdown_spread: tuple[float, float] | None
    confirmed: bool
    other_inputs: Elsewhere | None
    paste: tuple[Annotated[str, Bounds(minLength=1)], ...]
    same_program: str | None


@dataclass(frozen=True, kw_only=True)
class FlagTried:
    """A flag at one value. told_by: `run`, or `code` where the code is the default's. grown: how many times
    as large the divergence is. env: the environment variable that sets the flag."""

    name: Annotated[str, Bounds(minLength=1)]
    default: Any
    tried: Any
    outcome: Outcome
    removed_fraction: Fraction | None
    role: Annotated[str, Bounds(enum=["fix", "necessary", "no effect", "unresolved"])]
    told_by: Annotated[str, Bounds(enum=["run", "code"])]
    grown: float | None
    env: str | None


@dataclass(frozen=True, kw_only=True)
class Contrasted:
    """The target under two configurations. target: its outcome as it is. repairs, causes: settings that make
    the side that diverges agree, and the reverse. unknown: why there might be more."""

    with_: Annotated[str, Bounds(minLength=1)]
    target: Outcome
    repairs: tuple[Settings, ...]
    causes: tuple[Settings, ...]
    unknown: str | None


@dataclass(frozen=True, kw_only=True)
class Input:
    """A tensor that the minimal case takes."""

    shape: tuple[Count, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Minimal:
    """The minimal case. ops: of its calls, n_ops of which compute; lines: of its function in the repro."""

    ops: tuple[str, ...]
    n_ops: Count
    calls: tuple[str, ...]
    inputs: tuple[Input, ...]
    input_numel: Count
    lines: Count | None
    graph: str | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """The nearest case that agrees. artifact_diff: a file; diff: its lines, where they are few."""

    differs_by: str
    artifact_diff: RelativePath | None
    diff: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Share:
    """The part of the divergence that denying a decision removes, and that which is left where all others are
    denied."""

    decision: AnyDecision
    removed_fraction: Fraction | None
    left_fraction: Fraction | None


@dataclass(frozen=True, kw_only=True)
class Carried:
    """Of a part of the graph, as of core.mechanism.Carries."""

    name: str
    places: Count
    alone: float | None
    without: float | None
    made_by: tuple[str, ...] = field(default=(), metadata=LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class Family:
    """Many decisions of a large graph that carry the divergence together. halves: what each half removes.
    alone, without: what each group removes by itself, and all others do."""

    kinds: tuple[Kind, ...]
    groups: tuple[str, ...]
    places: Count
    removed_fraction: float
    confirmed: bool
    halves: tuple[float, ...]
    alone: Mapping[str, float]
    without: Mapping[str, float]
    layers: tuple[Carried, ...]
    operations: tuple[Carried, ...]
    nodes: tuple[Carried, ...]
    adds_up: bool | None


@dataclass(frozen=True, kw_only=True)
class DecisionText:
    """text: what was decided. where: the user's `file:line`; source: torch's own, of a formula."""

    text: str
    where: str
    source: str = field(default="", metadata=LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class Step:
    """A call, or an item or attribute that is read or set, in a traced function. where: `file:line`; the
    rest as of core.steps.Step."""

    id: AnyDecision
    code: str
    becomes: str
    where: str


@dataclass(frozen=True, kw_only=True)
class Steps:
    """As of core.steps.FoundSteps."""

    steps: tuple[Step, ...]
    alone: Outcome
    inside: tuple[Step, ...]
    needed: Needed


@dataclass(frozen=True, kw_only=True)
class FirstPlace:
    """Where a script first differs: as of core.standing.Place. call: from 1."""

    call: Count
    of: Count
    entry: str
    values: tuple[Value, ...]


@dataclass(frozen=True, kw_only=True)
class CallStanding:
    """As of core.standing.Standing. call: from 1."""

    call: Count
    entry: str
    outputs: float | None
    gradients: float | None
    left: float | None
    differs: str | None


@dataclass(frozen=True, kw_only=True)
class OtherCall:
    """Another call that diverges, numbered from 1. same_cause: None where that is not known."""

    call: Annotated[int, Bounds(minimum=1)]
    entry: str
    reason: str
    same_cause: bool | None


@dataclass(frozen=True, kw_only=True)
class UnderFix:
    """As of core/script_tried.py. remaining: the reason, where something else is mended."""

    fix: str
    outcome: Outcome
    reason: str
    comparisons: int
    own_difference: str
    remaining: str


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """Outcomes in a second process: of the default compile, and of each repair."""

    process: str
    default: Outcome
    repairs: tuple[Outcome, ...]


@dataclass(frozen=True, kw_only=True)
class Document:
    """One run. repro, test, report_html, report_markdown: files of the run directory. unproved: why nothing
    is confirmed. script: the script under the best fix. others: further calls that diverge."""

    schema_version: Annotated[int, Bounds(const=VERSION)]
    target: Annotated[str, Bounds(minLength=1)]
    run: Annotated[str, Bounds(minLength=1)]
    exit_status: Annotated[int, Bounds(enum=[0, 1, 2, 3, 125, 130])]
    environment: Environment
    verdict: VerdictPart
    origin: Origin | None
    amplifier: Amplifier | None
    graph: Graph | None
    repairs: tuple[Repair, ...]
    causes: tuple[Cause, ...]
    fixes: tuple[Fix, ...]
    flags: tuple[FlagTried, ...]
    contrast: Contrasted | None
    neighbour: Nearest | None
    graded: tuple[Share, ...]
    adds_up: bool | None
    removed_together: Fraction | None
    minimal: Minimal | None
    builds: FoundBuilds | None
    repro: RelativePath | None
    repro_fix: str | None
    test: RelativePath | None
    report_html: RelativePath | None
    report_markdown: RelativePath | None
    probes: Probes
    seconds: Seconds
    stopped_because: str | None
    seed: int | None
    settings: Mapping[str, Any]
    hooks_off: Annotated[Mapping[str, str], ByHook]
    not_here: Annotated[Mapping[str, str], ByKind]
    places: tuple[Place, ...]
    text_notes: tuple[str, ...]
    decisions: Annotated[Mapping[DecisionId, DecisionText], ByDecision]
    others: tuple[OtherCall, ...]
    first_place: FirstPlace | None = field(default=None, metadata=LEFT_OUT)
    calls: tuple[CallStanding, ...] = field(default=(), metadata=LEFT_OUT)
    reuses: tuple[Reuse, ...] = field(default=(), metadata=LEFT_OUT)
    steps: Steps | None = field(default=None, metadata=LEFT_OUT)
    family: Family | None = field(default=None, metadata=LEFT_OUT)
    script: UnderFix | None = field(default=None, metadata=LEFT_OUT)
    unproved: str | None = field(default=None, metadata=LEFT_OUT)
    entry: str | None = field(default=None, metadata=LEFT_OUT)
    confirmation: Confirmation | None = field(default=None, metadata=LEFT_OUT)

    @property
    def diverges(self) -> bool:
        """Whether the run saw a divergence that stays, or found what removes it."""
        return self.verdict.class_ in DIVERGING or bool(self.causes or self.repairs or self.fixes)

    @property
    def decided(self) -> tuple[DecisionId, ...]:
        """The decisions of causes and repairs, in the order of mention."""
        sets = [cause.decisions for cause in self.causes] + [repair.decisions for repair in self.repairs]
        return tuple(dict.fromkeys(member for members in sets for member in members))
