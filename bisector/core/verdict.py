"""Verdict classes: what kind of divergence this is, from measurements alone."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from .criterion import Criterion
from .judge import judge
from .model import Measurement, Outcome, OutputMeasurement, Signature


class VerdictClass(enum.Enum):
    """The classes of the contract."""

    AGREES = "agrees"
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
    eager against itself (generators running on; put back), and eager with each node moved by one ulp."""

    default: Measurement
    again: Measurement
    restored: Measurement
    nudged: tuple[Measurement, ...] = ()


# An error twice the other's is the margin of torch._dynamo.utils.same (multiplier 2) for "worse".
WORSE = 2.0
# One ulp at each of n nodes moves a well-conditioned output by some n ulp; a hundred is amplification.
AMPLIFIED = 100.0
EPS = {"float64": 2.2e-16, "float32": 1.2e-7, "float16": 9.8e-4, "bfloat16": 7.8e-3}


def classify(evidence: Evidence, criterion: Criterion, own_random: bool) -> Verdict:
    """own_random: the compile was told to draw random numbers as eager does (fallback_random)."""
    default = judge(evidence.default, criterion)
    if default.outcome is Outcome.UNRESOLVED:
        return Verdict(VerdictClass.UNRESOLVED, default.reason)
    if default.outcome is Outcome.PASS:
        return Verdict(VerdictClass.AGREES, "every output agrees within tolerance")
    if judge(evidence.restored, criterion).outcome is not Outcome.PASS:
        reason = "eager differs from eager on the same inputs and the same random state"
        return Verdict(VerdictClass.NONDETERMINISTIC, reason, default.signatures)
    if judge(evidence.again, criterion).outcome is not Outcome.PASS and not own_random:
        reason = (
            "eager draws random numbers and differs from itself; torch.compile draws others. "
            "With `-c fallback_random=True` both draw the same"
        )
        return Verdict(VerdictClass.NONDETERMINISTIC, reason, default.signatures)
    return _by_accuracy(evidence, criterion, default.signatures)


def _by_accuracy(evidence: Evidence, criterion: Criterion, signatures: tuple[Signature, ...]) -> Verdict:
    paths = {s.path for s in signatures}
    outputs = [o for o in evidence.default.outputs if o.path in paths]
    known = [o for o in outputs if o.rms_error_eager is not None and o.rms_error_compiled is not None]
    if not known:
        return Verdict(VerdictClass.UNRESOLVED, "diverges; there is no float64 reference to tell which is right", signatures)
    worse = [o for o in known if _worse(o) > 0]
    better = [o for o in known if _worse(o) < 0]
    if worse:
        return Verdict(VerdictClass.COMPILED_WORSE, _errors(worse[0], "farther from"), signatures)
    if amplifier := _amplified(evidence.nudged, criterion, signatures):
        return Verdict(VerdictClass.AMPLIFIED_ROUNDING, amplifier, signatures)
    if better:
        return Verdict(VerdictClass.COMPILED_BETTER, _errors(better[0], "closer to"), signatures)
    return Verdict(VerdictClass.EQUALLY_ACCURATE, _errors(known[0], "about as far as eager from"), signatures)


def _worse(output: OutputMeasurement) -> int:
    """1 where compiled is clearly farther from the reference than eager, -1 where clearly closer, else 0."""
    nonfinite = output.reference_nonfinite_compiled - output.reference_nonfinite_eager
    if nonfinite:
        return 1 if nonfinite > 0 else -1
    eager, compiled = output.rms_error_eager or 0.0, output.rms_error_compiled or 0.0
    if compiled > WORSE * eager:
        return 1
    return -1 if eager > WORSE * compiled else 0


def _errors(output: OutputMeasurement, how: str) -> str:
    text = f"{output.path}: compiled is {how} the float64 reference"
    if output.reference_nonfinite_compiled or output.reference_nonfinite_eager:
        return (
            f"{text}: {output.reference_nonfinite_compiled} elements are not finite where it is "
            f"(eager: {output.reference_nonfinite_eager})"
        )
    return f"{text} (rms error {output.rms_error_compiled:.3g}, eager {output.rms_error_eager:.3g})"


def _amplified(
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
