"""Whether a measurement agrees, diverges or cannot tell, and by how much."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from .compared import Compared
from .criterion import Criterion
from .dtypes import EPS
from .model import DivergenceKind, Measurement, OutputMeasurement, ProbeResult, Signature, family
from .outcome import Outcome
from .probe_reasons import (
    AnotherSignature,
    BothRaise,
    NothingToCompare,
    NotTaken,
    OtherStrides,
    OutputsAgree,
    ProgramDisagrees,
    Raises,
    TrialsDisagree,
)
from .reasons import Message, OfOutput, Reason, Together

# What changes in a message when the case gets smaller: numbers, addresses, names that are counted.
_CHANGES = re.compile(r"0x[0-9a-f]+|/[\w./+-]+|\d+")


def normalised(message: str) -> str:
    """A message without what changes from one case to a smaller one."""
    return _CHANGES.sub("N", message)


def _signature(output: OutputMeasurement, kind: DivergenceKind) -> Signature:
    if output.raised is None:
        return Signature(output.path, kind)
    sides = [side or "returns" for side in (output.raised.eager, output.raised.compiled)]
    return Signature(output.path, kind, normalised(" / ".join(sides)))


def _shared_key(signature: Signature) -> tuple[str, DivergenceKind, str]:
    """What a smaller graph, whose outputs are others, shares with the whole."""
    return family(signature.path), signature.kind, signature.exception


def judge(
    measurement: Measurement, criterion: Criterion, same: Iterable[Signature] | None = None
) -> ProbeResult:
    """PASS where every output agrees, FAIL where one diverges, UNRESOLVED where nothing was measured.

    same: the signatures under study. A divergence that shares none of them (by family and kind, since
    a smaller graph has other outputs) is another bug: UNRESOLVED, so that no search slips on to it. Nor do
    two runs that both raise agree in the values that are studied. Nor do runs of which nothing was compared,
    or not all.

    Strides alone make a divergence only where nothing else does, and the criterion asks for them. Runs of one
    program that do not have one outcome are UNRESOLVED.
    """
    if measurement.error is not None:
        return ProbeResult(Outcome.UNRESOLVED, Message(measurement.error), measurement)
    if measurement.others:
        runs = [replace(measurement, outputs=outputs, others=()) for outputs in measurement.others]
        first, *more = (judge(one, criterion, same) for one in (replace(measurement, others=()), *runs))
        if any(result.outcome is not first.outcome for result in more):
            return ProbeResult(Outcome.UNRESOLVED, ProgramDisagrees(), measurement)
    found: list[Signature] = []
    reasons: list[Reason] = []
    for output in measurement.outputs:
        answer = criterion.divergence(output)
        if answer is not None:
            found.append(_signature(output, answer[0]))
            reasons.append(OfOutput(output.path, answer[1]))
    if not found and criterion.strides:
        found, reasons = _other_strides(measurement)
    studied = None if same is None else {_shared_key(signature) for signature in same}
    raised = [o.raised for o in measurement.outputs if o.raised is not None]
    if raised and studied is not None and all(kind is not DivergenceKind.RAISES for _, kind, _ in studied):
        raises = Raises(bool(raised[0].eager), raised[0].eager or raised[0].compiled)
        return ProbeResult(Outcome.UNRESOLVED, raises, measurement, tuple(found))
    if not found and (unseen := _not_compared(measurement)):
        return ProbeResult(Outcome.UNRESOLVED, unseen, measurement)
    if not found:
        both = BothRaise(raised[0].compiled) if raised else OutputsAgree()
        return ProbeResult(Outcome.PASS, both, measurement, compared=compared_in(measurement))
    signatures = tuple(found)
    if studied is not None and not studied & {_shared_key(signature) for signature in signatures}:
        return ProbeResult(Outcome.UNRESOLVED, AnotherSignature(reasons[0]), measurement, signatures)
    reason = reasons[0] if len(reasons) == 1 else Together(tuple(reasons))
    return ProbeResult(Outcome.FAIL, reason, measurement, signatures)


def compared_in(measurement: Measurement) -> Compared:
    """What was compared of one call, and what was not."""
    return Compared(
        values=len(measurement.outputs) + measurement.same,
        unequal=sum(output.n_diff > 0 for output in measurement.outputs),
        unseen=tuple(one for one in (measurement.error, measurement.unseen) if one),
    )


def _not_compared(measurement: Measurement) -> Reason | None:
    """Why outputs that agree prove nothing; None where they do."""
    if measurement.unseen:
        return Message(measurement.unseen)
    return None if measurement.outputs or measurement.same else NothingToCompare()


def _other_strides(measurement: Measurement) -> tuple[list[Signature], list[Reason]]:
    """The outputs that lie otherwise in memory; a gradient has the strides that autograd gives it."""
    outputs = [o for o in measurement.outputs if o.stride_compiled and family(o.path) == "output"]
    found = [Signature(output.path, DivergenceKind.STRIDE) for output in outputs]
    return found, [OfOutput(o.path, OtherStrides(o.stride_compiled, o.stride)) for o in outputs]


def proof(result: ProbeResult, denied: Iterable[str]) -> ProbeResult:
    """The result as proof that denying exactly these decisions repairs.

    Where the compile was never asked about one of them, it is the compile that denies the others alone: that
    its outputs agree says nothing about the one, and the outcome is UNRESOLVED.
    """
    gone = sorted(set(result.measurement.vanished) & set(denied))
    if result.outcome is not Outcome.PASS or not gone:
        return result
    return replace(result, outcome=Outcome.UNRESOLVED, reason=NotTaken(gone[0], len(gone) - 1))


def size(measurement: Measurement, criterion: Criterion) -> float:
    """How much diverges, as one number for `removed_fraction`: the worst excess over what is allowed.

    Not finite on one side counts as infinite; 0 when everything agrees.
    """
    worst = 0.0
    for output in measurement.outputs:
        answer = criterion.divergence(output)
        if answer is None:
            continue
        if answer[0] is not DivergenceKind.VALUE:
            return float("inf")
        worst = max(worst, criterion.excess(output))
    return worst


def worst(output: OutputMeasurement, criterion: Criterion) -> int | None:
    """The flat index of the element that fails the tolerance most; None where nothing differs."""
    if not output.worst:
        return None
    if output.nonfinite_mismatches or len(output.worst) != len(output.frontier):
        return output.worst[0]
    return output.worst[criterion.worst_pair(output)]


# In the order of how much is wrong; of values it is asked how much.
_RANKS = {DivergenceKind.STRIDE: 0, DivergenceKind.VALUE: 1, DivergenceKind.NONFINITE: 2}


def severity(result: ProbeResult) -> tuple[int, float]:
    """How bad a divergence is, to be compared with others: its worst kind, then its worst value.

    In units of the dtype's rounding; where it has none, a flipped element is an error of its own size.
    """
    diverging = {s.path: s.kind for s in result.signatures}
    outputs = [o for o in result.measurement.outputs if o.path in diverging]
    worst = max((_RANKS.get(kind, 3) for kind in diverging.values()), default=0)
    return worst, max(map(_against_rounding, outputs), default=0.0)


def _against_rounding(output: OutputMeasurement) -> float:
    if output.dtype not in EPS:
        return output.n_diff / (output.numel * EPS["float32"]) if output.numel else 0.0
    return output.max_abs / (EPS[output.dtype] * output.scale) if output.scale else float("inf")


def grown(before: Measurement, after: Measurement, criterion: Criterion) -> float | None:
    """How many times as large the divergence is: by its size, or by the elements that differ where they may
    not differ at all. None where there is nothing finite to divide by, or nothing was measured after."""
    old, new = size(before, criterion), size(after, criterion)
    if after.error is not None or not 0.0 < old < float("inf"):
        return None
    fewer, more = _unequal(before, criterion), _unequal(after, criterion)
    return max(new / old, more / fewer if fewer else 0.0)


def _unequal(measurement: Measurement, criterion: Criterion) -> int:
    """Elements that differ, of the outputs that are held to equality."""
    held = [o for o in measurement.outputs if criterion.is_exact(o)]
    return sum(output.n_diff for output in held)


def removed_fraction(before: Measurement, after: Measurement, criterion: Criterion) -> float:
    """Which part of the divergence is gone: 1 when all outputs agree, 0 when it is as large or larger.

    0 too where `after` has no outputs (a crash removes nothing).
    """
    outcome = judge(after, criterion).outcome
    if outcome is not Outcome.FAIL:
        return 1.0 if outcome is Outcome.PASS else 0.0
    old, new = size(before, criterion), size(after, criterion)
    if new == float("inf") or old == 0.0:
        return 0.0
    # From infinite to finite is progress that no ratio can say; half is a convention, never a repair.
    return 0.5 if old == float("inf") else max(0.0, 1.0 - new / old)


def removed_square(before: Measurement, after: Measurement, paths: Iterable[str]) -> float:
    """Which part of the mean square of the differences is gone, over these outputs, each counting the same;
    0 to 1. Where errors are independent, what several of them make adds up so.

    0 too where `after` has no outputs.
    """
    if after.error is not None:
        return 0.0
    now = {output.path: output for output in after.outputs}
    left = []
    for output in before.outputs:
        if output.path not in set(paths) or not (output.rms or output.nonfinite_mismatches):
            continue
        other = now.get(output.path)
        if other is None or other.nonfinite_mismatches:
            left.append(1.0)
        else:
            left.append(min(1.0, (other.rms / output.rms) ** 2) if output.rms else 0.0)
    return 1.0 - sum(left) / len(left) if left else 0.0


def together(trials: Sequence[ProbeResult]) -> ProbeResult:
    """The first of trials that agree; UNRESOLVED, with how often each outcome came, where they do not."""
    outcomes = tuple(t.outcome for t in trials)
    if len(set(outcomes)) == 1:
        return trials[0]
    reason = TrialsDisagree(outcomes)
    return replace(trials[0], outcome=Outcome.UNRESOLVED, reason=reason, signatures=())
