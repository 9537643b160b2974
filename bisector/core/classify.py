"""From measurements to a verdict: what is steady, what is random, what is of another kind; values last."""

from __future__ import annotations

import math
from dataclasses import replace

from .criterion import Criterion
from .evidence import Evidence
from .judge import judge
from .model import DivergenceKind, Measurement, OutputMeasurement, Signature
from .outcome import Outcome
from .reasons import (
    AllAgree,
    DrawsBeyond,
    DrawsOthers,
    EagerDiffers,
    EagerDiffersAt,
    EagerDraws,
    Message,
    OfOutput,
    Reason,
    RunsDiffer,
    ShapeMoves,
    Together,
    WrongInEveryRun,
)
from .trace import Trace
from .value_reasons import OtherwiseWithoutCasts
from .value_verdict import ValueVerdict, mended
from .verdict import Rule, Verdict, VerdictClass, decided

# What kind of divergence is no matter of accuracy: eager says what the program means.
PLAINLY_WRONG = (DivergenceKind.SHAPE, DivergenceKind.DTYPE, DivergenceKind.ALIAS)


def classify(
    evidence: Evidence, criterion: Criterion, own_random: bool, followed: Trace | None = None
) -> Verdict:
    """followed: what arises and grows at each node, once that is known; it then stands in place of the
    nudges. own_random: the compile was set to draw random numbers as eager does (fallback_random)."""
    default = judge(evidence.default, criterion)
    if default.outcome is Outcome.UNRESOLVED:
        return decided(VerdictClass.UNRESOLVED, default.reason)
    if (steady := _steady_alone(evidence, criterion, default.signatures)) is not None:
        return classify(steady, criterion, own_random, followed)
    raised, undeclared = evidence.default.raises, None
    if default.signatures and {s.path for s in default.signatures} <= set(evidence.undeclared_paths):
        declared = Message(evidence.undeclared)
        undeclared = decided(VerdictClass.UNDEFINED, declared, Rule.DECLARATION, default.signatures)
    if raised and default.outcome is Outcome.FAIL:
        raises = default.reason.why if isinstance(default.reason, OfOutput) else default.reason
        return undeclared or decided(VerdictClass.RAISES, raises, signatures=default.signatures)
    if not raised:
        unsteady = _eager_differs(evidence, criterion, default.signatures)
        unsteady = unsteady or _compiled_differs(evidence, criterion, default.signatures, followed)
        if unsteady is not None:
            return unsteady
    if default.outcome is Outcome.PASS:
        agrees = default.reason if raised else AllAgree()
        return decided(VerdictClass.AGREES, agrees, compared=default.compared)
    # Where both draw the same numbers, what else differs is judged as in a call that draws nothing.
    if not own_random and (beyond := next(iter(evidence.outside.items()), None)) is not None:
        return decided(VerdictClass.UNRESOLVED, DrawsBeyond(*beyond), Rule.DRAWN_ALIKE, default.signatures)
    if evidence.alike is not None and judge(evidence.alike, criterion).outcome is Outcome.PASS:
        return decided(VerdictClass.RANDOM, DrawsOthers(), Rule.DRAWN_ALIKE, default.signatures)
    if _is_unsteady(evidence.again, criterion) and not own_random:
        return decided(VerdictClass.NONDETERMINISTIC, EagerDraws(), Rule.DRAWN_ALIKE, default.signatures)
    if undeclared is not None:
        return undeclared
    for output in evidence.default.outputs:
        found = criterion.divergence(output)
        if found is not None and found[0] is DivergenceKind.SHAPE:
            shapes = OfOutput(output.path, found[1])
            if (shape := _by_shape(evidence, criterion, output, shapes, default.signatures)) is not None:
                return shape
        if found is not None and found[0] in PLAINLY_WRONG:
            reason = OfOutput(output.path, found[1])
            return decided(VerdictClass.COMPILED_WORSE, reason, Rule.KIND, default.signatures)
    if all(signature.kind is DivergenceKind.STRIDE for signature in default.signatures):
        return decided(VerdictClass.COMPILED_WORSE, default.reason, Rule.KIND, default.signatures)
    return ValueVerdict(evidence, criterion, default.signatures, followed).verdict()


# A one-ulp nudge reaches a step in about half of the draws; compiled may move as many elements again.
MOVES_AS_MANY = 4


def _by_shape(
    evidence: Evidence,
    criterion: Criterion,
    output: OutputMeasurement,
    shapes: Reason,
    signatures: tuple[Signature, ...],
) -> Verdict | None:
    """Where how many elements an output has hangs on its values: on casts that are not executed, or on
    rounding. None where neither changes it. shapes: how the two shapes differ.

    What is wrong for values that no cast has rounded is mended by casts that are executed: compiled must
    also have about as many elements as eager without them.
    """
    moved = max(map(_elements_more, evidence.nudged_at(output.path)), default=0)
    why: Reason | None = mended(output, evidence, criterion)
    if why is not None:
        kind, rule = VerdictClass.ELIDED_ROUNDING, Rule.CASTS
        left_out = evidence.left_out_at(output.path)
        if left_out is not None and _elements_more(left_out) > MOVES_AS_MANY * moved:
            kind, why = VerdictClass.UNRESOLVED, OtherwiseWithoutCasts()
    elif moved:
        far = _elements_more(output) > MOVES_AS_MANY * moved
        kind = VerdictClass.UNRESOLVED if far else VerdictClass.AMPLIFIED_ROUNDING
        why, rule = ShapeMoves(moved), Rule.ROUNDING
    else:
        return None
    return decided(kind, Together((shapes, why)), rule, signatures)


def _elements_more(output: OutputMeasurement) -> int:
    """By how many elements the two shapes differ; 1 where they have as many in another shape."""
    if output.shape_compiled is None:
        return 0
    return max(1, abs(math.prod(output.shape_compiled) - math.prod(output.shape)))


# -- runs that do not repeat ----------------------------------------------------------------------------


def _steady_alone(
    evidence: Evidence, criterion: Criterion, signatures: tuple[Signature, ...]
) -> Evidence | None:
    """Where some outputs differ when eager is run again, and others, which do not, differ compiled: these
    are judged by themselves. None where there are none of either."""
    if evidence.restored is None or evidence.restored.error is not None:
        return None
    unsteady = {s.path for s in judge(evidence.restored, criterion).signatures}
    steady = [s for s in signatures if s.path not in unsteady]
    return evidence.leaving_out(unsteady) if unsteady and steady else None


def _eager_differs(
    evidence: Evidence, criterion: Criterion, signatures: tuple[Signature, ...]
) -> Verdict | None:
    """Where the same run of eager gives other values, so that nothing can be compared with it."""
    if not signatures or not _is_unsteady(evidence.restored, criterion):
        return None
    named = next(iter(evidence.undefined.items()), None)
    if named is not None:
        return decided(VerdictClass.UNDEFINED, EagerDiffersAt(*named), Rule.UNDEFINED_NODE, signatures)
    return decided(VerdictClass.NONDETERMINISTIC, EagerDiffers(), Rule.EAGER_REPEATED, signatures)


def _compiled_differs(
    evidence: Evidence,
    criterion: Criterion,
    signatures: tuple[Signature, ...],
    followed: Trace | None,
) -> Verdict | None:
    """Where the compiled program's own runs differ from each other as much as from eager, or some of them
    agree with eager and others do not. None where they do not differ so.

    If every run is wrong, by more than rounding explains, the outcome is steady though the bits are not: a
    read outside of a buffer, or of memory that nothing was written to (pytorch#190765).
    """
    repeated, diverges = evidence.repeated, bool(signatures)
    if repeated is None:
        return None
    flipped = sum(
        o.count for o in repeated.others if (_outcome(o.against_eager, criterion) is Outcome.FAIL) != diverges
    )
    far = sum(o.count for o in repeated.others if _outcome(o.against_first, criterion) is Outcome.FAIL)
    if not flipped and not (far and diverges):
        return None
    figures = {"runs": float(repeated.runs), "unlike_first": float(repeated.unlike)}
    if not flipped and (wrong := _wrong_in_every_run(evidence, criterion, signatures, followed)):
        every = WrongInEveryRun(wrong, repeated.runs, repeated.unlike)
        return decided(VerdictClass.COMPILED_WORSE, every, Rule.EVERY_RUN, signatures, figures)
    agreeing = flipped if diverges else repeated.runs - flipped
    reason = RunsDiffer(repeated.runs, repeated.unlike, agreeing)
    return decided(VerdictClass.NONDETERMINISTIC, reason, Rule.COMPILED_REPEATED, signatures, figures)


def _wrong_in_every_run(
    evidence: Evidence,
    criterion: Criterion,
    signatures: tuple[Signature, ...],
    followed: Trace | None,
) -> Reason | None:
    """How the first run is wrong, where all are by more than rounding; else None."""
    assert evidence.repeated is not None
    runs = [evidence.default, *(other.against_eager for other in evidence.repeated.others)]
    found = [ValueVerdict(replace(evidence, default=run), criterion, signatures, followed) for run in runs]
    return found[0].verdict().reason if all(one.is_wrong for one in found) else None


def _is_unsteady(eager_again: Measurement | None, criterion: Criterion) -> bool:
    """Whether another run of eager is not known to agree with the first."""
    return eager_again is not None and judge(eager_again, criterion).outcome is not Outcome.PASS


def _outcome(measurement: Measurement, criterion: Criterion) -> Outcome:
    return judge(measurement, criterion).outcome
