"""The class of a divergence in values: by the nodes where they were followed, by the casts, by accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .accuracy import (
    AMPLIFIED,
    WORSE,
    Drawn,
    gain,
    is_beyond_local,
    is_exact,
    is_explained,
    is_far,
    is_far_worse,
    is_few,
    is_its_own_reference,
    is_known,
    is_small,
    is_unmoved,
    is_within_rounding,
    leaning,
    leaning_here,
    leaning_if_far,
    moved_by_ulps,
)
from .criterion import Criterion
from .evidence import Evidence
from .judge import judge
from .leaning import Leaning
from .model import DivergenceKind, OutputMeasurement, Signature
from .outcome import Outcome
from .reasons import OfOutput, Reason, Together
from .trace import NodeTrace, Trace, amplified, amplifier, rounding_alone
from .value_reasons import (
    AtAStep,
    BeyondNudges,
    CastExplainsPart,
    CastLeftOut,
    EagerMoves,
    ElementsDiffer,
    Errors,
    ErrorsByCasts,
    FromUndefined,
    Growth,
    NearerOnOthers,
    NearerTo,
    NearerUnclear,
    NodeDiffers,
    NoReferenceToTell,
    NoRoundingExplains,
    NotFinite,
    OtherwiseWithoutCasts,
    RoundingFallsShort,
    RoundingGrows,
    ShownBy,
    UndefinedNode,
)
from .verdict import Rule, Verdict, VerdictClass, decided


@dataclass(frozen=True)
class ValueVerdict:
    """Classifies a divergence in values: by the nodes where they were followed, by the casts, by accuracy."""

    evidence: Evidence
    criterion: Criterion
    signatures: tuple[Signature, ...]
    followed: Trace | None

    def verdict(self) -> Verdict:
        """Of the outputs that values which torch leaves undefined explain nothing is judged but where they do
        all; the others are judged separately."""
        explained = self._explained()
        rest = tuple(s for s in self.signatures if s.path not in explained)
        if not rest:
            return self._undefined(explained)
        return replace(self, signatures=rest)._of_values()

    def _of_values(self) -> Verdict:
        """Outputs that unexecuted casts explain are judged separately: another one may be wrong."""
        if (wrong := self._by_node()) is not None:
            return wrong
        if not (cast := self._cast()):
            return self._by_outputs()
        rest = tuple(s for s in self.signatures if s.path not in cast)
        others = replace(self, signatures=rest)._by_outputs() if rest else None
        if others is not None and others.kind is VerdictClass.COMPILED_WORSE:
            return others
        for output in cast.values():
            if self._is_otherwise_without(output):
                return self._otherwise_without(output)
            # The largest differences are those of one element only where there is one: of many, the casts
            # may hide one that is wrong, which the largest move at another element covers.
            if output.numel > 1 and self._cast_left_out(output) is None:
                return self._left_by_casts(output)
        if others is not None and others.kind is VerdictClass.UNRESOLVED:
            return others
        return self._by_casts(cast)

    def _explained(self) -> dict[str, Reason]:
        """The outputs that differ where torch leaves a value undefined, and nowhere else, with the reason."""
        found: dict[str, Reason] = {}
        for path in self.paths if self.evidence.undefined else ():
            name, what = next(iter(self.evidence.undefined.items()))
            if path in self.evidence.undefined_paths:
                found[path] = FromUndefined(name, what)
            elif (node := self._first_off(path)) is not None and node.name in self.evidence.undefined:
                found[path] = UndefinedNode(node.name, node.op, self.evidence.undefined[node.name])
        return found

    def _first_off(self, path: str) -> NodeTrace | None:
        """The first node before an output at which more than rounding arises."""
        nodes = () if self.followed is None else self.followed.behind([path])
        return next((n for n in nodes if n.wrong or n.beyond), None)

    def _undefined(self, explained: Mapping[str, Reason]) -> Verdict:
        by_values = set(self.paths) <= set(self.evidence.undefined_paths)
        rule = Rule.UNDEFINED_VALUES if by_values else Rule.UNDEFINED_NODE
        return self._decided(VerdictClass.UNDEFINED, next(iter(explained.values())), rule)

    @property
    def is_wrong(self) -> bool:
        """Whether more than rounding makes the difference; without a reference, whether one ulp at each node
        leaves eager within the tolerance."""
        found = self.verdict()
        if found.rule is Rule.NO_REFERENCE:
            return self._sensitive() is None
        return found.kind is VerdictClass.COMPILED_WORSE

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(sorted({s.path for s in self.signatures}))

    @property
    def outputs(self) -> list[OutputMeasurement]:
        return [o for o in self.evidence.default.outputs if o.path in self.paths]

    @property
    def nodes(self) -> tuple[NodeTrace, ...]:
        return () if self.followed is None else self.followed.behind(self.paths)

    def _decided(self, kind: VerdictClass, reason: Reason, rule: Rule, **figures: float) -> Verdict:
        return decided(kind, reason, rule, self.signatures, figures)

    def _by_node(self) -> Verdict | None:
        """A node at which more than rounding arises makes the verdict, whatever comes of it."""
        node = next((n for n in self.nodes if n.wrong), None)
        if node is None:
            return None
        reason = NodeDiffers(node.name, node.op, node.local_ulp, node.eager_ulp)
        figures = {"local_ulp": node.local_ulp} | (
            {} if node.eager_ulp is None else {"eager_ulp": node.eager_ulp}
        )
        return self._decided(VerdictClass.COMPILED_WORSE, reason, Rule.NODE, **figures)

    def _by_casts(self, cast: Mapping[str, OutputMeasurement]) -> Verdict:
        """cast: the outputs that they explain, one at least."""
        output = next(iter(cast.values()))
        other = self.evidence.widest_at(output.path)
        how = self._cast_left_out(output) or CastLeftOut(ShownBy.ROUNDING_LEFT)
        reason: Reason = OfOutput(output.path, how)
        if other is not None and is_known(output):
            reason = ErrorsByCasts(output.path, how, _errors_of(output), _errors_of(other))
        return self._decided(VerdictClass.ELIDED_ROUNDING, reason, Rule.CASTS, **_figures(output))

    def _left_by_casts(self, output: OutputMeasurement) -> Verdict:
        """Of an output that differs less, and still does, where the casts are executed."""
        executed = self.evidence.executed_at(output.path)
        left = None if executed is None else executed.max_abs
        reason = OfOutput(output.path, CastExplainsPart(left))
        return self._decided(VerdictClass.UNRESOLVED, reason, Rule.CASTS, **_figures(output))

    def _is_otherwise_without(self, output: OutputMeasurement) -> bool:
        """Whether no float64 run tells, and compiled is not eager without the casts: what goes wrong for
        values that no cast has rounded is mended by casts that are executed. Of codes a few flip anyway."""
        left_out = self.evidence.left_out_at(output.path)
        found = None if left_out is None else self.criterion.divergence(left_out)
        if left_out is None or found is None or found[0] is not DivergenceKind.VALUE:
            return False
        return left_out.n_diff * 2 > output.n_diff if is_exact(output) else not is_known(output)

    def _otherwise_without(self, output: OutputMeasurement) -> Verdict:
        reason = OfOutput(output.path, OtherwiseWithoutCasts())
        return self._decided(VerdictClass.UNRESOLVED, reason, Rule.CASTS)

    def _cast(self) -> dict[str, OutputMeasurement]:
        """The outputs that casts explain, by path: where all casts are executed, or compiled is held to eager
        without them, they agree or differ by rounding. Where there are float64 runs, such an output is
        farther from the one that rounds where the program says so, and not from the one that never does."""
        found = {}
        for output in self.outputs:
            if is_exact(output):
                continue
            shown = self._cast_left_out(output) is not None
            other = self.evidence.widest_at(output.path)
            if not is_known(output):
                told = shown
            elif other is None or not is_known(other) or not (shown or self._leaves_less(output)):
                told = False
            else:
                obeying = leaning(output, self.evidence.redrawn, False)
                told = obeying is Leaning.WORSE and leaning_here(other) is not Leaning.WORSE
            if told:
                found[output.path] = output
        return found

    def _cast_left_out(self, output: OutputMeasurement) -> CastLeftOut | None:
        """What shows that casts make the difference of an output; None where nothing does."""
        if (how := mended(output, self.evidence, self.criterion)) is not None:
            return how
        return CastLeftOut(ShownBy.ROUNDING_LEFT) if self._leaves_explained(output) else None

    def _left(self, output: OutputMeasurement) -> OutputMeasurement | None:
        """An output where every cast is executed, if it then differs by values alone."""
        executed = self.evidence.executed_at(output.path)
        found = None if executed is None else self.criterion.divergence(executed)
        return executed if found is not None and found[0] is DivergenceKind.VALUE else None

    def _leaves_explained(self, output: OutputMeasurement) -> bool:
        """Whether rounding moves each element in eager as far as it differs where every cast is executed. One
        that the runs missed by chance is not told from one that is wrong."""
        left = self._left(output)
        return left is not None and left.unexplained == 0

    def _leaves_less(self, output: OutputMeasurement) -> bool:
        """Whether an output then differs everywhere by less than an ulp at each node moves some element: a
        sum that cancels has a tolerance as small."""
        left = self._left(output)
        moves = [moved.max_abs for moved in self.evidence.nudged_at(output.path)]
        return left is not None and left.max_abs < max(moves, default=0.0)

    def _by_outputs(self) -> Verdict:
        sensitive = self._sensitive()
        amplified_by = self._amplified_by(sensitive)
        chance = sensitive is not None or amplified_by is not None
        leanings = [(o, self._leaning(o, chance)) for o in self.outputs]
        for output, found in leanings:
            if found is Leaning.WORSE and is_exact(output):
                return self._without_rounding(output)
        for wanted, kind in (
            (Leaning.WORSE, VerdictClass.COMPILED_WORSE),
            (Leaning.BETTER, VerdictClass.COMPILED_BETTER),
        ):
            for output, found in leanings:
                if found is wanted:
                    return self._by_accuracy(kind, output, found)
        return self._by_rounding([o for o, _ in leanings], amplified_by)

    def _without_rounding(self, output: OutputMeasurement) -> Verdict:
        """Of an output whose dtype has no rounding, and whose differences none before it explains: those at
        elements that no rounding moves are none; where it moves them all, but less far, it is not known."""
        differ = ElementsDiffer(output.path, output.n_diff, output.numel)
        if (how := self._cast_left_out(output)) is not None:
            if self._is_otherwise_without(output):
                return self._otherwise_without(output)
            return self._decided(VerdictClass.ELIDED_ROUNDING, Together((differ, how)), Rule.CASTS)
        figures = {"n_diff": float(output.n_diff)}
        if output.unexplained is not None:
            figures |= {"unexplained": float(output.unexplained), "unmoved": float(output.unmoved or 0)}
        if output.unmoved is None or is_unmoved(output, self.evidence):
            none = NoRoundingExplains(differ, output.dtype, output.unmoved)
            return self._decided(VerdictClass.COMPILED_WORSE, none, Rule.EXACT_DTYPE, **figures)
        short = RoundingFallsShort(differ, output.dtype, output.unexplained or 0)
        return self._decided(VerdictClass.UNRESOLVED, short, Rule.EXACT_DTYPE, **figures)

    def _by_accuracy(self, kind: VerdictClass, output: OutputMeasurement, found: Leaning) -> Verdict:
        """With the errors on other inputs, where they tell it and those on these inputs do not."""
        drawn = None
        if is_few(output) and leaning_here(output) is not found:
            drawn = Drawn.of(output.path, self.evidence.redrawn)
        if drawn is not None and drawn.leaning(WORSE) is not found:
            drawn = None
        if found is Leaning.ALIKE and drawn is None and leaning_here(output) is not Leaning.ALIKE:
            found = Leaning.ROUNDS
        return self._decided(
            kind, _nearer(output, found, drawn), Rule.ACCURACY, **_figures(output), **_figures_of(drawn)
        )

    def _leaning(self, output: OutputMeasurement, chance: bool) -> Leaning:
        if is_exact(output):
            return Leaning.INCONCLUSIVE if self._comes_from_rounding(output) else Leaning.WORSE
        if not is_known(output):
            return Leaning.INCONCLUSIVE
        found = leaning(output, self.evidence.redrawn, chance)
        if found is Leaning.INCONCLUSIVE:
            found = leaning_if_far(output, self.evidence)
        # Of terms that cancel what is left is chance: their rounding, which the sum lets stand, is all of it.
        well = found is Leaning.WORSE and self._rounds_well and is_within_rounding(output, self._gain(output))
        return Leaning.ALIKE if well and not is_far_worse(output) else found

    def _gain(self, output: OutputMeasurement) -> float:
        """The largest gain at a node before an output, 1 where none is known or it is without bound."""
        grows = None if self.followed is None else amplifier(self.followed.behind([output.path]))
        gain = 1.0 if grows is None or grows.gain is None else grows.gain
        return gain if math.isfinite(gain) else 1.0

    @property
    def _rounds_well(self) -> bool:
        """Whether no node is known to be off by more than rounding, for whatever reason."""
        return rounding_alone(self.nodes) and not any(n.beyond for n in self.nodes)

    def _comes_from_rounding(self, output: OutputMeasurement) -> bool:
        """Whether an output without rounding of its own differs by what was rounded before it."""
        if self.followed is not None and self.followed.output(output.path) is not None:
            nodes = self.followed.behind([output.path])
            # An error that is small against the largest element may be none of its own rounding.
            if rounding_alone(nodes) and output.unexplained is None:
                return any(n.local_ulp > 0 for n in nodes if n.arises)
        return is_explained(output, self.evidence)

    def _by_rounding(self, outputs: Sequence[OutputMeasurement], amplified_by: Reason | None) -> Verdict:
        """Outputs of which accuracy cannot tell whether eager or compiled is better."""
        known = [o for o in outputs if is_known(o) and not is_exact(o)]
        if amplified_by is not None and (known or all(is_few(o) or is_exact(o) for o in outputs)):
            return self._decided(VerdictClass.AMPLIFIED_ROUNDING, amplified_by, Rule.ROUNDING)
        if all(is_exact(o) for o in outputs):
            step = AtAStep(outputs[0].path)
            return self._decided(VerdictClass.AMPLIFIED_ROUNDING, step, Rule.ROUNDING)
        if not known:
            return self._without_reference(outputs)
        unclear = next((o for o in known if not self._is_as_accurate(o)), None)
        if unclear is not None:
            reason = NearerUnclear(unclear.path, unclear.n_diff, is_few(unclear), _errors_of(unclear))
            return self._decided(VerdictClass.UNRESOLVED, reason, Rule.ACCURACY, **_figures(unclear))
        return self._by_accuracy(VerdictClass.EQUALLY_ACCURATE, known[0], Leaning.ALIKE)

    def _without_reference(self, outputs: Sequence[OutputMeasurement]) -> Verdict:
        """Eager is the meaning of the program, and one step at each operation shows what rounding may make.
        Of few elements among many it does not: those that lie at a step may not be met."""
        known = (o for o in outputs if not is_few(o) or o.n_diff == o.numel)
        if (far := next((o for o in known if is_far(o, self.evidence)), None)) is not None:
            moved = max(moved_by_ulps(far, self.evidence))
            reason = BeyondNudges(far.path, far.max_abs, moved)
            return self._decided(VerdictClass.COMPILED_WORSE, reason, Rule.BEYOND_NUDGES)
        return self._decided(VerdictClass.UNRESOLVED, NoReferenceToTell(), Rule.NO_REFERENCE)

    def _is_as_accurate(self, output: OutputMeasurement) -> bool:
        """Whether the two errors are about equal, here or over other inputs, or nothing but rounding arises.
        Of a program that computes in float64 itself, whether they are small."""
        if is_its_own_reference(output):
            return is_small(output)
        if leaning_here(output) is Leaning.ALIKE or is_small(output):
            return True
        return self._rounds_well or leaning(output, self.evidence.redrawn, False) is Leaning.ALIKE

    def _amplified_by(self, sensitive: Reason | None) -> Reason | None:
        """Why this is amplified rounding, None where it is not. Where the nodes were followed they tell; else
        one ulp at each node, which shows what could be, not what was."""
        is_amplified = None if self.followed is None else amplified(self.followed, self.paths)
        if is_amplified is None:
            return sensitive
        if not is_amplified:
            return None
        nodes = self.nodes
        most = max(n.local_ulp for n in nodes)
        grows = amplifier(nodes)
        if grows is None or grows.gain is None:
            return RoundingGrows(most, None)
        return RoundingGrows(most, Growth(grows.name, grows.op, grows.gain))

    def _sensitive(self) -> Reason | None:
        """A reason where one ulp at each node moves eager itself about as far as compiled is, None where it
        does not."""
        ours = {o.path: o for o in self.outputs if not self._is_beyond_moves(o)}
        for measurement in self.evidence.nudged:
            moved = judge(measurement, self.criterion, same=self.signatures)
            paths = {s.path for s in moved.signatures} & set(ours)
            for output in measurement.outputs if moved.outcome is Outcome.FAIL else ():
                if output.path in paths and gain(output) > AMPLIFIED:
                    return EagerMoves(output.path, output.n_diff, output.numel, output.max_abs)
        return None

    def _is_beyond_moves(self, output: OutputMeasurement) -> bool:
        if is_exact(output):
            return not is_explained(output, self.evidence)
        return is_beyond_local(output, self.evidence)


def mended(output: OutputMeasurement, evidence: Evidence, criterion: Criterion) -> CastLeftOut | None:
    """How the casts of the program make the difference: an output agrees where each is executed, or with
    eager without them; None where neither is so."""
    executed, left_out = evidence.executed_at(output.path), evidence.left_out_at(output.path)
    if executed is not None and criterion.divergence(executed) is None:
        return CastLeftOut(ShownBy.EXECUTED)
    without = left_out is not None and criterion.divergence(left_out) is None
    return CastLeftOut(ShownBy.LEFT_OUT) if without else None


def _nearer(output: OutputMeasurement, how: Leaning, drawn: Drawn | None) -> Reason:
    compiled, eager = output.reference_nonfinite_compiled, output.reference_nonfinite_eager
    if compiled or eager:
        return NotFinite(output.path, how, compiled, eager)
    if drawn is not None:
        others = Errors(drawn.compiled, drawn.eager)
        return NearerOnOthers(output.path, how, len(drawn.outputs), others)
    return NearerTo(output.path, how, _errors_of(output))


def _errors_of(output: OutputMeasurement) -> Errors:
    """Of an output that has a reference."""
    assert output.rms_error_compiled is not None and output.rms_error_eager is not None
    return Errors(output.rms_error_compiled, output.rms_error_eager)


def _figures_of(drawn: Drawn | None) -> dict[str, float]:
    if drawn is None:
        return {}
    return {
        "other_inputs": float(len(drawn.outputs)),
        "rms_error_compiled_on_others": drawn.compiled,
        "rms_error_eager_on_others": drawn.eager,
    }


def _figures(output: OutputMeasurement) -> dict[str, float]:
    return {
        "rms_error_compiled": output.rms_error_compiled or 0.0,
        "rms_error_eager": output.rms_error_eager or 0.0,
        "rms_rounding": output.rms_rounding or 0.0,
    }
