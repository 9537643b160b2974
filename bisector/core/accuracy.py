"""Which of two runs is nearer to the float64 reference, and when that is more than chance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .criterion import DTYPE_TOLERANCES, Criterion
from .dtypes import EPS
from .evidence import Evidence
from .far_elements import FAR, FEW, NOTICED, far_steps
from .leaning import Leaning
from .model import Measurement, OutputMeasurement, Tolerance, family

# An error twice the other's is the margin of torch._dynamo.utils.same (multiplier 2) for "worse". It is
# asked of the errors before the last rounding to the dtype, which both programs make; where that one is the
# larger part, the difference must also show in the whole error.
WORSE = 2.0
SHOWS = 1.2
# Where one ulp moves eager itself that far, both programs are far off by chance, and one of them by some
# times more; an order of magnitude is no chance.
WORSE_AMPLIFIED = 10.0
# One ulp at each of n nodes moves a well-conditioned output by some n ulp; a hundred is amplification.
AMPLIFIED = 100.0
# Steps of the dtype, as rms error: a program that rounds well at every node is no nearer for certain.
STEPS = 4.0
# Of 24 draws in which the two errors differ, 22 or more lean to one side by chance in one of 28,000; where 7
# of 10 do by nature, as with a sum that cancels, in one of 40.
CONSISTENT = 22 / 24
LEAST_DRAWS = 8


# Runs with several steps at each operation, for each run with one. A value at the middle of its steps is met
# by one such run in four.
WIDE_DRAWS = 2
NOT_MET = 0.75


def is_exact(output: OutputMeasurement) -> bool:
    """Whether its dtype has no rounding: integers, booleans, codes."""
    return output.dtype not in EPS


def is_few(output: OutputMeasurement) -> bool:
    """Whether so few elements differ that on which side they fall is chance."""
    return output.n_diff <= FEW


def is_known(output: OutputMeasurement) -> bool:
    """Whether there is a reference for it."""
    return output.rms_error_eager is not None and output.rms_error_compiled is not None


def is_explained(output: OutputMeasurement, evidence: Evidence) -> bool:
    """Whether eager itself, with each operation before an output without rounding moved by some steps, comes
    as far at the elements that differ: at all but those that so few runs miss by chance."""
    return output.unexplained is not None and output.unexplained <= _missed(output, evidence)


def is_unmoved(output: OutputMeasurement, evidence: Evidence) -> bool:
    """Whether that does not move eager at all at elements that differ, at more than are missed by chance."""
    return output.unmoved is not None and output.unmoved > _missed(output, evidence)


def _missed(output: OutputMeasurement, evidence: Evidence) -> float:
    """How many of the elements that differ so few runs miss."""
    return output.n_diff * NOT_MET ** (WIDE_DRAWS * len(evidence.nudged)) if evidence.nudged else 0.0


def gain(output: OutputMeasurement) -> float:
    """Largest move of the output in units of its dtype's rounding; infinite for integers and inf."""
    if output.dtype not in EPS or output.nonfinite_mismatches:
        return float("inf")
    return output.max_abs / (EPS[output.dtype] * output.scale) if output.scale else float("inf")


def is_far(output: OutputMeasurement, evidence: Evidence) -> bool:
    """Whether an output is off by far more than rounding explains: than one ulp at each operation moves it in
    eager, and than the coarsest dtype of the program rounds. False where no such run gave it."""
    return _is_beyond(output, evidence, FAR)


def has_other_reference(evidence: Evidence) -> bool:
    """Whether eager and compiled are both off from the float64 run by far more than rounding explains: a
    program that asks for its dtype computes something else there."""
    for output in evidence.default.outputs:
        nearer = min(output.rms_error_eager or 0.0, output.rms_error_compiled or 0.0)
        rounding = _moved_by_rounding(output, evidence)
        if not is_exact(output) and rounding is not None and nearer > FAR * rounding:
            return True
    return False


# Times what one ulp at each operation moves an output by: a sum in another order is off by some tens.
BEYOND_LOCAL = 100.0


def is_beyond_local(output: OutputMeasurement, evidence: Evidence) -> bool:
    """Whether a small difference is more than the rounding of the operations that made it. False where no run
    says how much that is."""
    return output.n_diff > 0 and (_is_beyond(output, evidence, BEYOND_LOCAL) or is_far_at_elements(output))


# Of the elements that are far off in one run alone, so many are in compiled where that is no chance: values
# at a step fall to either side. Of FEW + 1 one lies on eager's side by chance once in 7,000.
ONE_SIDED = 0.94


def is_far_at_elements(output: OutputMeasurement) -> bool:
    """Whether many elements are far from the reference at their own sizes in compiled alone, as small ones
    may be where another is large."""
    far = output.far
    return far is not None and far.compiled > FEW and far.compiled >= ONE_SIDED * (far.compiled + far.eager)


def moved_by_ulps(output: OutputMeasurement, evidence: Evidence) -> list[float]:
    """How far one ulp at each operation moves an output in eager, in each run that was made so."""
    return [_distance(o) for o in evidence.nudged_at(output.path)]


def _is_beyond(output: OutputMeasurement, evidence: Evidence, times: float) -> bool:
    rounding = _moved_by_rounding(output, evidence)
    return rounding is not None and _distance(output) > times * rounding


def _moved_by_rounding(output: OutputMeasurement, evidence: Evidence) -> float | None:
    """How far one ulp at each operation moves an output in eager at most, and no less than the coarsest dtype
    of the program rounds it; None where no such run gave it."""
    moved = moved_by_ulps(output, evidence)
    least = max(EPS.get(output.dtype, 0.0), evidence.coarsest) * output.scale
    return max(least, *moved) if moved else None


def beneath_tolerance(evidence: Evidence, criterion: Criterion) -> dict[str, tuple[Tolerance, ...]]:
    """Outputs that agree because the default absolute tolerance is larger than they are, or than many of
    their elements, though these are off by far more than rounding explains: what each output is held to
    instead, by path."""
    found = dict[str, tuple[Tolerance, ...]]()
    for output in _agreeing_by_default(evidence.default.outputs, criterion):
        if _is_moved_less(output, evidence) and (own := _own(output, output.scale)):
            found[output.path] = (own,)
        elif output.far is not None and is_far_at_elements(output):
            found[output.path] = ((DTYPE_TOLERANCES[output.dtype][0], output.far.by / 2),)
    return found


def may_be_beneath_tolerance(outputs: Sequence[OutputMeasurement], criterion: Criterion) -> bool:
    """Whether evidence could show that, by what the two runs alone tell."""
    return any(
        _own(output, output.scale) is not None or (output.n_diff > FEW and output.max_rel >= NOTICED)
        for output in _agreeing_by_default(outputs, criterion)
    )


# Times what one ulp at each operation moves an output by: of two ways to compute what cancels, one is off by
# some ten times as much as the other.
MOVED_LESS = 32.0


def _is_moved_less(output: OutputMeasurement, evidence: Evidence) -> bool:
    moved = moved_by_ulps(output, evidence)
    return bool(moved) and _distance(output) > MOVED_LESS * max(moved)


def beneath_tolerance_in_calls(
    calls: Iterable[Sequence[OutputMeasurement]], criterion: Criterion
) -> dict[str, tuple[Tolerance, ...]]:
    """The same by dtype, of the calls of a script, of which nothing says what rounding makes: a small output
    next to a large one of its kind may be what cancels in it."""
    found = list[tuple[str, Tolerance]]()
    for outputs in calls:
        scales = dict[str, float]()
        for output in outputs:
            scales[family(output.path)] = max(output.scale, scales.get(family(output.path), 0.0))
        for output in _agreeing_by_default(outputs, criterion):
            if own := _own(output, scales[family(output.path)]):
                found.append((output.dtype, own))
    return {dtype: (min(own for other, own in found if other == dtype),) for dtype, _ in found}


def _agreeing_by_default(
    outputs: Sequence[OutputMeasurement], criterion: Criterion
) -> Iterator[OutputMeasurement]:
    """Outputs that agree and for which the user set no tolerance."""
    for output in outputs:
        default = criterion.is_default(output) and output.dtype in DTYPE_TOLERANCES
        if default and not is_exact(output) and criterion.divergence(output) is None:
            yield output


def _own(output: OutputMeasurement, scale: float) -> Tolerance | None:
    """What an output is held to at that size; None where it agrees under this too, or the default is no
    larger."""
    rtol, atol = DTYPE_TOLERANCES[output.dtype]
    own = far_steps(EPS[output.dtype]) * EPS[output.dtype] * scale
    return (rtol, own) if 0.0 < own < atol and output.max_abs > own else None


def leaning_if_far(output: OutputMeasurement, evidence: Evidence) -> Leaning:
    """By the errors on these inputs, one of them negligible against the other; INCONCLUSIVE where it is not
    far off."""
    found = _leaning_of(output, FAR)
    return found if is_far(output, evidence) and found is not Leaning.ALIKE else Leaning.INCONCLUSIVE


def _distance(output: OutputMeasurement) -> float:
    return math.inf if output.nonfinite_mismatches else output.max_abs


def leaning(output: OutputMeasurement, redrawn: Sequence[Measurement], amplified: bool) -> Leaning:
    """redrawn: the same program on other inputs. amplified: rounding alone can move the output far."""
    nonfinite = output.reference_nonfinite_compiled - output.reference_nonfinite_eager
    if nonfinite:
        return Leaning.WORSE if nonfinite > 0 else Leaning.BETTER
    if is_its_own_reference(output):
        # It computes in float64 itself: what rounding explains is then no fault.
        return Leaning.INCONCLUSIVE if amplified or gain(output) <= AMPLIFIED else Leaning.WORSE
    margin = WORSE_AMPLIFIED if amplified else WORSE
    if is_few(output):
        drawn = Drawn.of(output.path, redrawn)
        return Leaning.INCONCLUSIVE if drawn is None else drawn.leaning(margin)
    return _leaning_of(output, margin)


def is_far_worse(output: OutputMeasurement) -> bool:
    """Whether compiled is so much farther from the reference than eager, over many elements, that what is
    left of terms which cancel does not explain it."""
    least = max(output.rms_error_eager or 0.0, output.rms_rounding or 0.0)
    return not is_few(output) and (output.rms_error_compiled or 0.0) > BEYOND_LOCAL * least


def is_within_rounding(output: OutputMeasurement, gain: float) -> bool:
    """Whether compiled is within a few steps of its dtype from the reference: each element by steps of its
    own size, where that is known, else at the scale of the output.

    gain: how many times as large relative errors get on the way to it.
    """
    if output.steps_error_compiled is not None:
        return output.steps_error_compiled <= STEPS * gain
    return (output.rms_error_compiled or 0.0) <= STEPS * EPS.get(output.dtype, 0.0) * output.scale * gain


def leaning_here(output: OutputMeasurement) -> Leaning:
    """By the errors on these inputs alone."""
    return _leaning_of(output, WORSE)


def _rounds(output: OutputMeasurement) -> bool:
    """Whether both runs round, by no more than a few steps of the dtype."""
    return bool(output.rms_error_eager) and is_within_rounding(output, 1.0)


@dataclass(frozen=True)
class Drawn:
    """An output on other inputs: those for which there is a reference and the two runs differ. Of errors that
    are rounding, those that leave the output as it is count as one: a sum of given gradients stays the same.

    eager, compiled: rms error of all draws together; least: the part of both that the last rounding makes.
    """

    outputs: tuple[OutputMeasurement, ...]
    eager: float
    compiled: float
    least: float

    @classmethod
    def of(cls, path: str, redrawn: Sequence[Measurement]) -> Drawn | None:
        """None where they are too few to tell anything."""
        outputs = [o for m in redrawn for o in m.outputs if o.path == path and is_known(o) and o.n_diff]
        if all(map(_rounds, outputs)):
            outputs = list({(o.scale, o.rms_error_eager, o.rms_error_compiled): o for o in outputs}.values())
        if len(outputs) < LEAST_DRAWS:
            return None
        return cls(
            tuple(outputs),
            _pooled([o.rms_error_eager or 0.0 for o in outputs]),
            _pooled([o.rms_error_compiled or 0.0 for o in outputs]),
            _pooled([o.rms_rounding or 0.0 for o in outputs]),
        )

    def leaning(self, margin: float) -> Leaning:
        """Told where nearly all draws lean to one side and the errors of all together do too."""
        together = _side(self.eager, self.compiled, self.least, margin)
        if together is Leaning.ALIKE:
            return Leaning.ALIKE
        leaning = [_leaning_of(output, 1.0) for output in self.outputs].count(together)
        return together if leaning >= CONSISTENT * len(self.outputs) else Leaning.INCONCLUSIVE


def is_its_own_reference(output: OutputMeasurement) -> bool:
    own = output.rms_error_eager == 0.0 and output.reference_nonfinite_eager == 0
    return own and output.dtype in ("float64", "complex128")


def _pooled(errors: Sequence[float]) -> float:
    return math.sqrt(sum(error * error for error in errors) / len(errors))


def _leaning_of(output: OutputMeasurement, margin: float) -> Leaning:
    """By the error of the whole, to which large elements contribute most, and by that of each element at its
    own size. Where one of the two does not lean the other tells; where they lean to other sides neither
    does."""
    eager, compiled = output.rms_error_eager or 0.0, output.rms_error_compiled or 0.0
    whole = _side(eager, compiled, output.rms_rounding or 0.0, margin)
    if output.steps_error_eager is None or output.steps_error_compiled is None:
        return whole
    own = _side(output.steps_error_eager, output.steps_error_compiled, output.steps_rounding or 0.0, margin)
    # Of errors of a few steps each element's own is chance.
    if own is Leaning.ALIKE or max(output.steps_error_eager, output.steps_error_compiled) <= STEPS:
        return whole
    return own if whole in (own, Leaning.ALIKE) else Leaning.INCONCLUSIVE


def is_small(output: OutputMeasurement) -> bool:
    """Whether compiled is off by no more than a well-conditioned program rounds."""
    if output.steps_error_compiled is not None:
        return output.steps_error_compiled <= AMPLIFIED
    return gain(output) <= AMPLIFIED


def _side(eager: float, compiled: float, least: float, margin: float) -> Leaning:
    """least: the part of both errors that the last rounding makes; it adds to the rest as squares do."""
    if _clearly_larger(compiled, eager, least, margin):
        return Leaning.WORSE
    return Leaning.BETTER if _clearly_larger(eager, compiled, least, margin) else Leaning.ALIKE


def _clearly_larger(large: float, small: float, least: float, margin: float) -> bool:
    shows = min(SHOWS, margin)
    return large > shows * small and _without(large, least) > margin * _without(small, least)


def _without(error: float, least: float) -> float:
    if error <= least or not math.isfinite(error):
        return 0.0 if error <= least else error
    return error * math.sqrt(max(0.0, 1.0 - (least / error) ** 2))
