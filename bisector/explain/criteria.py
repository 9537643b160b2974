"""The criterion that each subject is held to: a recorded call, and the outputs of a script's calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bisector.core.criterion import DTYPE_TOLERANCES, Criterion
from bisector.core.dtypes import INTEGERS
from bisector.core.judge import judge
from bisector.core.model import Measurement, Tolerance
from bisector.core.options import Options
from bisector.core.outcome import Outcome
from bisector.core.recorded import RecordedCall


def criterion_of_call(options: Options, own: Mapping[str, tuple[Tolerance, ...]]) -> Criterion:
    """Command line over a profile over the script's own comparisons (by path) over the defaults by dtype."""
    if (given := options.criterion) is not None:
        return given
    source = "the script's own comparison" if own else Criterion().source
    return Criterion(by_path=own, signed_zero=options.signed_zero, strides=True, source=source)


def criterion_of_script(options: Options, calls: Sequence[RecordedCall], of_call: Criterion) -> Criterion:
    """What the outputs of the script's calls are held to. Its own comparisons speak for themselves there, and
    may be about something computed from an output: their tolerance holds for the outputs too where it allows
    more of a value of 1 than the default of the dtype. of_call: of the call that was looked at."""
    loosest = _loosest(calls)
    if loosest is None or options.criterion is not None:
        return of_call
    by_dtype = {dtype: (max(held, loosest, key=sum),) for dtype, held in DTYPE_TOLERANCES.items()}
    by_dtype |= dict.fromkeys(INTEGERS, (loosest,))
    return replace(of_call, by_path={}, by_dtype=by_dtype)


def criterion_of_outputs(
    options: Options, call: RecordedCall, of_call: Criterion, default: Measurement
) -> Criterion:
    """The criterion of a call whose default compile is measured. A script may compare exactly what it
    computes from the outputs, such as a mask. Where the outputs differ beyond the default of their dtype
    too, a repair need not give their last bit."""
    if "*" not in call.tolerances:
        return of_call
    of_dtypes = criterion_of_script(options, [call], of_call)
    return of_dtypes if judge(default, of_dtypes).outcome is Outcome.FAIL else of_call


def criterion_of_comparisons(
    options: Options, calls: Sequence[RecordedCall], of_call: Criterion
) -> Criterion | None:
    """The tolerance of the script's own comparisons for every output, also where it allows less than the
    default: it tells which call made a comparison fail. None where there is none."""
    loosest = _loosest(calls)
    if loosest is None or options.criterion is not None:
        return None
    by_dtype = dict.fromkeys((*DTYPE_TOLERANCES, *INTEGERS), (loosest,))
    return replace(of_call, by_path={}, by_dtype=by_dtype)


def held_at_their_size(
    criterion: Criterion,
    by_path: Mapping[str, tuple[Tolerance, ...]] | None = None,
    by_dtype: Mapping[str, tuple[Tolerance, ...]] | None = None,
) -> Criterion:
    """The criterion with tolerances for outputs that are smaller than the default one."""
    if not by_path and not by_dtype:
        return criterion
    held = replace(criterion, source=f"{criterion.source}, small outputs at their own size")
    return replace(
        held, by_path={**held.by_path, **(by_path or {})}, by_dtype={**held.by_dtype, **(by_dtype or {})}
    )


def _loosest(calls: Sequence[RecordedCall]) -> Tolerance | None:
    own = [pair for call in calls for pairs in call.tolerances.values() for pair in pairs]
    return max(own, key=sum) if own else None
