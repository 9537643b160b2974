"""Verdict classes: what kind of divergence this is, from measurements alone."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

from .judge import EPS, Criterion, divergence, judge
from .model import DivergenceKind, Measurement, Outcome, OutputMeasurement, Signature
from .trace import Trace, amplified, amplifier


class VerdictClass(enum.Enum):
    """The classes of the contract."""

    AGREES = "agrees"
    RAISES = "raises"
    RANDOM = "random"
    COMPILED_WORSE = "compiled-worse"
    COMPILED_BETTER = "compiled-better"
    EQUALLY_ACCURATE = "equally-accurate"
    AMPLIFIED_ROUNDING = "amplified-rounding"
    NONDETERMINISTIC = "nondeterministic"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True)
class Verdict:
    """The class, why in a sentence, and the signatures of what diverges (empty where nothing does)."""

    kind: VerdictClass
    reason: str
    signatures: tuple[Signature, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """Measurements a verdict is made of: default compile against eager (with errors against float64),
    eager against itself (generators running on; put back), and eager with each node moved by one ulp.

    followed: what arises and grows at each node, once that is known; it then stands in place of the nudges.
    alike: the compile that draws random numbers as eager does, where any are drawn.
    """

    default: Measurement
    again: Measurement
    restored: Measurement
    nudged: tuple[Measurement, ...] = ()
    followed: Trace | None = None
    alike: Measurement | None = None


DRAWS_OTHERS = (
    "compiled draws other random numbers than eager; told to draw them as eager does (fallback_random), "
    "every output agrees"
)
# An error twice the other's is the margin of torch._dynamo.utils.same (multiplier 2) for "worse". It is
# asked of the errors before the last rounding to the dtype, which both programs make; where that one is the
# larger part, the difference must also show in the whole error.
WORSE = 2.0
SHOWS = 1.2
# Where one ulp moves eager itself that far, both programs are far off by chance, and one of them by some
# times more; an order of magnitude is no chance.
WORSE_AMPLIFIED = 10.0
# Of so many flipped elements or fewer, 4 to 1 (twice the rms error) fall on one side by chance more often
# than once in a hundred.
FEW = 16
# One ulp at each of n nodes moves a well-conditioned output by some n ulp; a hundred is amplification.
AMPLIFIED = 100.0
# What kind of divergence is no matter of accuracy: eager says what the program means.
PLAINLY_WRONG = (DivergenceKind.SHAPE, DivergenceKind.DTYPE, DivergenceKind.ALIAS)


def classify(evidence: Evidence, criterion: Criterion, own_random: bool) -> Verdict:
    """own_random: the compile was told to draw random numbers as eager does (fallback_random)."""
    default = judge(evidence.default, criterion)
    if default.outcome is Outcome.UNRESOLVED:
        return Verdict(VerdictClass.UNRESOLVED, default.reason)
    if default.outcome is Outcome.PASS:
        agrees = default.reason if _has_raised(evidence.default) else "every output agrees within tolerance"
        return Verdict(VerdictClass.AGREES, agrees)
    if _has_raised(evidence.default):
        return Verdict(VerdictClass.RAISES, default.reason.partition(": ")[2], default.signatures)
    if judge(evidence.restored, criterion).outcome is not Outcome.PASS:
        reason = "eager differs from eager on the same inputs and the same random state"
        return Verdict(VerdictClass.NONDETERMINISTIC, reason, default.signatures)
    if evidence.alike is not None and judge(evidence.alike, criterion).outcome is Outcome.PASS:
        return Verdict(VerdictClass.RANDOM, DRAWS_OTHERS, default.signatures)
    if judge(evidence.again, criterion).outcome is not Outcome.PASS and not own_random:
        reason = (
            "eager draws random numbers and differs from itself; torch.compile draws others. "
            "With `-c fallback_random=True` both draw the same"
        )
        return Verdict(VerdictClass.NONDETERMINISTIC, reason, default.signatures)
    for output in evidence.default.outputs:
        found = divergence(output, criterion)
        if found is not None and found[0] in PLAINLY_WRONG:
            return Verdict(VerdictClass.COMPILED_WORSE, f"{output.path}: {found[1]}", default.signatures)
    if all(signature.kind is DivergenceKind.STRIDE for signature in default.signatures):
        return Verdict(VerdictClass.COMPILED_WORSE, default.reason, default.signatures)
    return _by_accuracy(evidence, criterion, default.signatures)


def _has_raised(measurement: Measurement) -> bool:
    return any(output.raised is not None for output in measurement.outputs)


def _by_accuracy(evidence: Evidence, criterion: Criterion, signatures: tuple[Signature, ...]) -> Verdict:
    paths = {s.path for s in signatures}
    outputs = [o for o in evidence.default.outputs if o.path in paths]
    known = [o for o in outputs if o.rms_error_eager is not None and o.rms_error_compiled is not None]
    sensitive = _sensitive(evidence.nudged, criterion, signatures)
    amplified_by = _amplified_by(evidence.followed, tuple(sorted(paths)), sensitive)
    chance = sensitive is not None or amplified_by is not None
    margin = WORSE_AMPLIFIED if chance else WORSE
    clear = [o for o in known if _tells(o, chance)]
    for output in clear:
        if _worse(output, margin) > 0:
            return Verdict(VerdictClass.COMPILED_WORSE, _errors(output, "farther from"), signatures)
    for output in clear:
        if _worse(output, margin) < 0:
            return Verdict(VerdictClass.COMPILED_BETTER, _errors(output, "closer to"), signatures)
    if amplified_by is not None and (known or all(_a_few_flips(o) for o in outputs)):
        return Verdict(VerdictClass.AMPLIFIED_ROUNDING, amplified_by, signatures)
    if not known:
        reason = "diverges; there is no float64 reference to tell which is right"
        return Verdict(VerdictClass.UNRESOLVED, reason, signatures)
    return Verdict(VerdictClass.EQUALLY_ACCURATE, _errors(known[0], "about as far as eager from"), signatures)


def _tells(output: OutputMeasurement, amplified: bool) -> bool:
    """Whether its distances to the reference tell which program is to blame.

    A program that computes in float64 is its own reference: what rounding explains is then no fault.
    """
    own = output.rms_error_eager == 0.0 and output.reference_nonfinite_eager == 0
    own = own and output.dtype in ("float64", "complex128")
    if amplified:
        return not (own or _a_few_flips(output))
    return not own or _gain(output) > AMPLIFIED


def _a_few_flips(output: OutputMeasurement) -> bool:
    """Whether so few of the elements differ that which side they fall on is chance."""
    return output.n_diff <= FEW and 2 * output.n_diff < output.numel


def _worse(output: OutputMeasurement, margin: float) -> int:
    """1 where compiled is clearly farther from the reference than eager, -1 where clearly closer, else 0."""
    nonfinite = output.reference_nonfinite_compiled - output.reference_nonfinite_eager
    if nonfinite:
        return 1 if nonfinite > 0 else -1
    eager, compiled = output.rms_error_eager or 0.0, output.rms_error_compiled or 0.0
    least = output.rms_rounding or 0.0
    if _clearly_larger(compiled, eager, least, margin):
        return 1
    return -1 if _clearly_larger(eager, compiled, least, margin) else 0


def _clearly_larger(large: float, small: float, least: float, margin: float) -> bool:
    """least: the part of both errors that the last rounding makes; it adds to the rest as squares do."""
    before_large, before_small = _without(large, least), _without(small, least)
    return large > SHOWS * small and before_large > margin * before_small


def _without(error: float, least: float) -> float:
    if error <= least or not math.isfinite(error):
        return 0.0 if error <= least else error
    return error * math.sqrt(max(0.0, 1.0 - (least / error) ** 2))


def _errors(output: OutputMeasurement, how: str) -> str:
    text = f"{output.path}: compiled is {how} the float64 reference"
    if output.reference_nonfinite_compiled or output.reference_nonfinite_eager:
        return (
            f"{text}: {output.reference_nonfinite_compiled} elements are not finite where it is "
            f"(eager: {output.reference_nonfinite_eager})"
        )
    return f"{text} (rms error {output.rms_error_compiled:.3g}, eager {output.rms_error_eager:.3g})"


def _amplified_by(followed: Trace | None, paths: tuple[str, ...], sensitive: str | None) -> str | None:
    """Why this is amplified rounding, None where it is not. Where the nodes were followed they tell; else one
    ulp at each node, which shows what could be, not what was."""
    told = None if followed is None else amplified(followed, paths)
    if followed is None or told is None:
        return sensitive
    if not told:
        return None
    nodes = followed.behind(paths)
    most = max(n.local_ulp for n in nodes)
    text = f"at each node by itself the two runs differ by rounding alone (at most {most:.3g} ulp)"
    grows = amplifier(nodes)
    if grows is None:
        return f"{text}, which grows from node to node"
    how = f"{grows.gain:.3g} times" if math.isfinite(grows.gain or 0.0) else "without bound"
    return f"{text}; it grows most at `{grows.name}` ({grows.op}), {how}"


def _sensitive(
    nudged: Sequence[Measurement], criterion: Criterion, signatures: tuple[Signature, ...]
) -> str | None:
    """A sentence where one ulp at each node moves eager itself that far, None where it does not."""
    for measurement in nudged:
        moved = judge(measurement, criterion, same=signatures)
        paths = {s.path for s in moved.signatures} & {s.path for s in signatures}
        for output in measurement.outputs if moved.outcome is Outcome.FAIL else ():
            if output.path in paths and _gain(output) > AMPLIFIED:
                return (
                    f"one ulp at each node moves {output.path} of eager itself beyond tolerance "
                    f"({output.n_diff} of {output.numel} elements, up to {output.max_abs:.3g})"
                )
    return None


def _gain(output: OutputMeasurement) -> float:
    """Largest move of the output in units of its dtype's rounding; infinite for integers and inf."""
    if output.dtype not in EPS or output.nonfinite_mismatches:
        return float("inf")
    return output.max_abs / (EPS[output.dtype] * output.scale) if output.scale else float("inf")
