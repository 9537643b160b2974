"""A verdict: what kind of divergence this is, why, and what decided."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from .compared import Compared, must_prove
from .model import Signature
from .reasons import Reason


class VerdictClass(enum.Enum):
    """The classes of the contract."""

    AGREES = "agrees"
    RAISES = "raises"
    RANDOM = "random"
    UNDEFINED = "undefined"
    COMPILED_WORSE = "compiled-worse"
    COMPILED_BETTER = "compiled-better"
    EQUALLY_ACCURATE = "equally-accurate"
    AMPLIFIED_ROUNDING = "amplified-rounding"
    ELIDED_ROUNDING = "elided-rounding"
    OWN_DIFFERENCE = "own-difference"
    NONDETERMINISTIC = "nondeterministic"
    UNRESOLVED = "unresolved"


class Rule(enum.Enum):
    """What decided the class; docs/words.md has a row for each."""

    MEASURED = "measured"  # nothing to classify: it agrees, raises or has no outputs
    EAGER_REPEATED = "eager-repeated"
    COMPILED_REPEATED = "compiled-repeated"
    EVERY_RUN = "every-run"
    DRAWN_ALIKE = "drawn-alike"
    KIND = "kind"
    DECLARATION = "declaration"
    UNDEFINED_NODE = "undefined-node"
    UNDEFINED_VALUES = "undefined-values"
    NODE = "node"
    CASTS = "casts"
    EXACT_DTYPE = "exact-dtype"
    ACCURACY = "accuracy"
    ROUNDING = "rounding"
    NO_REFERENCE = "no-reference"
    BEYOND_NUDGES = "beyond-nudges"  # off by far more than one ulp at each operation moves eager
    EAGERS_KERNELS = "eagers-kernels"  # a rung of eager's kernels is off by more than rounding
    ASKS_COMPILING = "asks-compiling"  # the script agrees where `is_compiling` is true in both runs
    PUT_BACK = "put-back"  # the script passes where what a call leaves behind is put back before the next
    GROWTH = "growth"  # the script with compilation off, each call giving what it gave compiled
    SCRIPT = "script"  # the runs of the whole script


class NoExperiment(ValueError):
    """A class was given without an experiment that shows it: a fault of numbisect's own."""


# What shows a class; docs/words.md says of each how. "unresolved" is what any of them may leave.
EXPERIMENTS: Mapping[VerdictClass, frozenset[Rule]] = {
    VerdictClass.AGREES: frozenset({Rule.MEASURED}),
    VerdictClass.RAISES: frozenset({Rule.MEASURED, Rule.SCRIPT}),
    VerdictClass.RANDOM: frozenset({Rule.DRAWN_ALIKE}),
    VerdictClass.UNDEFINED: frozenset({Rule.DECLARATION, Rule.UNDEFINED_NODE, Rule.UNDEFINED_VALUES}),
    VerdictClass.COMPILED_WORSE: frozenset({
        Rule.KIND, Rule.NODE, Rule.EXACT_DTYPE, Rule.ACCURACY, Rule.EVERY_RUN, Rule.BEYOND_NUDGES,
        Rule.EAGERS_KERNELS, Rule.GROWTH, Rule.SCRIPT,
    }),
    VerdictClass.COMPILED_BETTER: frozenset({Rule.ACCURACY}),
    VerdictClass.EQUALLY_ACCURATE: frozenset({Rule.ACCURACY}),
    VerdictClass.AMPLIFIED_ROUNDING: frozenset({Rule.ROUNDING, Rule.GROWTH}),
    VerdictClass.ELIDED_ROUNDING: frozenset({Rule.CASTS}),
    VerdictClass.OWN_DIFFERENCE: frozenset({Rule.PUT_BACK, Rule.ASKS_COMPILING, Rule.SCRIPT}),
    VerdictClass.NONDETERMINISTIC: frozenset({
        Rule.EAGER_REPEATED, Rule.COMPILED_REPEATED, Rule.DRAWN_ALIKE, Rule.SCRIPT,
    }),
    VerdictClass.UNRESOLVED: frozenset(Rule),
}  # fmt: skip
# What the nodes can tell better, once they are followed.
BY_VALUES = frozenset({
    Rule.CASTS, Rule.EXACT_DTYPE, Rule.ACCURACY, Rule.ROUNDING, Rule.NO_REFERENCE, Rule.BEYOND_NUDGES,
})


@dataclass(frozen=True)
class Verdict:
    """The class, why, and the signatures of what diverges (empty where nothing does).

    rule: what decided. figures: the numbers that it decided by, by name. compared: what the two runs were
    compared in; an agreement without it is no verdict (NothingCompared).
    """

    kind: VerdictClass
    reason: Reason
    signatures: tuple[Signature, ...] = ()
    rule: Rule = Rule.MEASURED
    figures: Mapping[str, float] = field(default_factory=dict)
    compared: Compared | None = None

    def __post_init__(self) -> None:
        if self.kind is VerdictClass.AGREES:
            must_prove(self.compared)
        if self.rule not in EXPERIMENTS[self.kind]:
            raise NoExperiment(f"{self.rule.value} is no experiment that shows {self.kind.value}")


def decided(
    kind: VerdictClass,
    reason: Reason,
    rule: Rule = Rule.MEASURED,
    signatures: tuple[Signature, ...] = (),
    figures: Mapping[str, float] | None = None,
    compared: Compared | None = None,
) -> Verdict:
    """The verdict: no other place puts one together. Raises NoExperiment where what decided does not show the
    class, and NothingCompared of an agreement without what was compared."""
    return Verdict(kind, reason, signatures, rule, figures or {}, compared)
