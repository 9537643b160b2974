"""The words of numbisect as types: pure data, frozen, and JSON at the edges.

Nothing here knows torch, a file or a process. `docs/words.md` gives the meaning of each term.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .compared import Compared, must_prove
from .decision import Decision, DecisionId
from .far_elements import FarElements
from .outcome import Outcome
from .reasons import Reason

Json = Any  # a value that json.dumps takes
Tolerance = tuple[float, float]  # rtol, atol


class Base(enum.Enum):
    """The compile that a candidate starts from."""

    DEFAULT = "default"  # as the user compiles it; the members are denied
    PLAIN = "plain"  # the plain baseline: all denied but `lower`; the members are the other way round


@dataclass(frozen=True)
class Candidate:
    """One set of choices to compile and run.

    members: over Base.DEFAULT the decisions that are denied; over Base.PLAIN those that are allowed, and the
    `lower` decisions that are denied.
    flags: (name, value) settings on top of the subject's own; names as in the contract (`inductor.…`).
    backend: a rung of the backend ladder.
    """

    base: Base = Base.DEFAULT
    members: frozenset[DecisionId] = frozenset()
    flags: tuple[tuple[str, Json], ...] = ()
    backend: str = "inductor"

    @classmethod
    def deny(cls, members: Iterable[str]) -> Candidate:
        return cls(members=frozenset(map(DecisionId, members)))

    @classmethod
    def with_flags(cls, flags: Mapping[str, Json]) -> Candidate:
        return cls(flags=tuple(sorted(flags.items())))

    @property
    def needs_hooks(self) -> bool:
        """Whether decisions must be overridden; without it the compile is plain torch's own."""
        return self.base is Base.PLAIN or bool(self.members)


@dataclass(frozen=True)
class Raised:
    """What two runs raised, of which at least one did.

    eager, compiled: type and first line, None where it returned. alike: both raised the same type.
    """

    eager: str | None
    compiled: str | None
    alike: bool


@dataclass(frozen=True)
class OutputMeasurement:
    """How one output of the compiled run stands against eager: numbers only, no judgement.

    frontier: pairs (|eager|, |compiled - eager|) that bind for some tolerance. Compiled is within
    `atol + rtol*|eager|` everywhere if and only if it is on the frontier, so any criterion can judge a
    journalled measurement again without a compile. Elements that are not finite on one side only (or
    differ in sign of infinity) count in nonfinite_mismatches and stand outside the frontier.
    worst: flat indices, in parts of elements (a complex one has two): of the first element that is not finite
    on one side only, if there is one, and of each pair of the frontier.
    n_diff: elements that are not bit-equal (NaN equals NaN; -0.0 and +0.0 differ).
    sign_diff: those among them that differ only in the sign of a zero. rises: those that are larger in
    compiled, of elements that are finite in both and no complex numbers.
    max_abs: largest difference of elements that are finite in both. max_rel: largest over |eager|, of those
    that are not 0 in eager.
    rms: root mean square of the difference, over all elements; 0 where one of the two is not finite.
    max_ulp: steps of the dtype between the two values at the worst element; None for integers and float8.
    cosine: of the angle between the two as vectors, over what is finite in both; None where nothing differs,
    and for dtypes that are no floating-point numbers.
    rms_error_*: root mean square distance to the float64 reference, None where there is none;
    rms_rounding: that of the reference itself once it is rounded to the dtype: no program is nearer;
    unexplained: elements that differ by more than eager's own do where each operation before them is moved by
    some steps of its dtype; unmoved: those among them that eager then gives as before; each None where that
    was not asked;
    steps_*: the same three, each element's error in units of what rounding alone may make of it: a step of
    the dtype at its own size, and what one step at each operation moves it by; far: where those errors are
    many steps, None where that is not known; reference_nonfinite_*: elements whose finiteness differs from
    the reference's.
    """

    index: int
    path: str
    dtype: str
    shape: tuple[int, ...]
    numel: int
    n_diff: int = 0
    sign_diff: int = 0
    rises: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: int | None = None
    cosine: float | None = None
    rms: float = 0.0
    scale: float = 0.0  # largest finite |eager|
    nonfinite_mismatches: int = 0
    frontier: tuple[tuple[float, float], ...] = ()
    worst: tuple[int, ...] = ()
    dtype_compiled: str | None = None  # only where it differs
    shape_compiled: tuple[int, ...] | None = None
    stride: tuple[int, ...] | None = None  # only where it differs; 0 for a dimension of one element
    stride_compiled: tuple[int, ...] | None = None
    alias_mismatch: str | None = None
    raised: Raised | None = None  # the only output of two runs of which one raised
    unexplained: int | None = None
    unmoved: int | None = None
    rms_error_eager: float | None = None
    rms_error_compiled: float | None = None
    rms_rounding: float | None = None
    steps_error_eager: float | None = None
    steps_error_compiled: float | None = None
    steps_rounding: float | None = None
    far: FarElements | None = None
    reference_nonfinite_eager: int = 0
    reference_nonfinite_compiled: int = 0


@dataclass(frozen=True)
class Measurement:
    """What one probe brought back. `error` is set, and nothing else, when there was nothing to measure.

    error: why there are no outputs ("crash: signal 11", "timeout after 60 s", "compile error: …").
    decisions: every decision the hooks saw, in the order the compiler took them.
    vanished: members of the candidate that this compile never asked about.
    code: a digest of the generated source, normalised; equal digests are the same program.
    others: the outputs of further runs of the same program, where any gave other bits, against eager's.
    same: values besides the outputs that were compared, and are equal: names, counts and the like. unseen:
    what was not compared, and why, so that outputs which agree prove nothing; None where all of it was.
    """

    outputs: tuple[OutputMeasurement, ...] = ()
    decisions: tuple[Decision, ...] = ()
    vanished: tuple[DecisionId, ...] = ()
    code: str = ""
    error: str | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    others: tuple[tuple[OutputMeasurement, ...], ...] = ()
    same: int = 0
    unseen: str | None = None

    @property
    def raises(self) -> bool:
        """Whether one of the two runs raised, or both."""
        return any(output.raised is not None for output in self.outputs)


@dataclass(frozen=True)
class Machine:
    """Versions and devices as torch sees them. isa: the vector instructions that Inductor picks."""

    torch: str | None
    torch_git: str | None = None
    isa: str | None = None
    gpu: str | None = None


class DivergenceKind(enum.Enum):
    """In what an output differs; the order is the order of precedence."""

    RAISES = "raises"
    SHAPE = "shape"
    DTYPE = "dtype"
    ALIAS = "alias"
    NONFINITE = "non-finite"
    VALUE = "value"
    STRIDE = "stride"


def family(path: str) -> str:
    """`output`, `grad` or `mutated`: what stays of a path when the graph around it is made smaller."""
    return path.partition("[")[0]


@dataclass(frozen=True)
class Signature:
    """What makes two divergences the same one: where it shows and as what. exception: of one that raises, as
    `normalised` writes it."""

    path: str
    kind: DivergenceKind
    exception: str = ""


@dataclass(frozen=True)
class ProbeResult:
    """A judged measurement. compared: of one that agrees, which is none without it (NothingCompared)."""

    outcome: Outcome
    reason: Reason
    measurement: Measurement = field(default_factory=Measurement)
    signatures: tuple[Signature, ...] = ()
    compared: Compared | None = None

    def __post_init__(self) -> None:
        if self.outcome is Outcome.PASS:
            must_prove(self.compared)
