"""The numbers of a result as short strings: cells and lines that the text and the Markdown report share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from bisector.core.fix import Elsewhere
from bisector.core.fix_source import python_literal
from bisector.core.verdict import VerdictClass

from .blocks import Table, cell
from .document import Document, Fix, FlagTried, Held, Minimal, Output, VerdictPart
from .words import (
    BACKEND_SENTENCES,
    conjunction,
    count,
    number,
    percent,
    tensor,
)

_OUTPUT_HEADER = (
    "output",
    "tensor",
    "differ",
    "max abs",
    "max rel",
    "max ulp",
    "rms error\neager",
    "rms error\ncompiled",
)
_NUMERIC = frozenset(range(3, 8))
WORSE = 1.5  # a difference that grows less than this may have grown by chance, as bits moved


def outputs_table(outputs: Sequence[Output]) -> Table:
    """A row for each output; a column without any number is left out."""
    rows = [_output_cells(output) for output in outputs]
    kept = [column for column in range(len(_OUTPUT_HEADER)) if any(row[column] != "-" for row in rows)]
    numeric = frozenset(place for place, column in enumerate(kept) if column in _NUMERIC)
    cells = tuple(tuple(cell(row[column]) for column in kept) for row in rows)
    return Table(cells, tuple(_OUTPUT_HEADER[column] for column in kept), numeric)


def _output_cells(output: Output) -> list[str]:
    """One output under the whole header; "-" where the number has no meaning or could not be had."""
    figures = (
        output.max_abs,
        output.max_rel,
        output.max_ulp,
        output.rms_error_eager,
        output.rms_error_compiled,
    )
    return [
        output.path or str(output.index),
        tensor(output.dtype, output.shape),
        f"{number(output.n_diff)}/{number(output.numel)}",
        *("-" if figure is None else number(figure) for figure in figures),
    ]


def verdict_lines(result: Document) -> list[str]:
    """What stands under the table of outputs: tolerance, backend, where it starts and grows, settings."""
    verdict = result.verdict
    lines = []
    nonfinite = sum(output.nonfinite_mismatches for output in verdict.outputs)
    if nonfinite:
        lines.append(f"Finite on one side only: {count(nonfinite, 'element')}.")
    if criterion := verdict.criterion:
        lines += _allowed(criterion)
    backend = verdict.first_bad_backend
    if backend:
        lines.append(f"First backend that diverges: {backend} ({BACKEND_SENTENCES[backend]}).")
    lines += trace_lines(result)
    if result.settings:
        values = [f"{name} = {python_literal(value)}" for name, value in result.settings.items()]
        lines.append(f"The subject itself sets {conjunction(values)}.")
    if result.entry:
        lines.append(f"The compiled call that was examined: `{result.entry}`.")
    return lines


def _allowed(criterion: Held) -> list[str]:
    """What differences are allowed; no line where nothing was compared."""
    different = dict.fromkeys((rtol, atol) for rtol, atol in criterion.tolerances)
    pairs = conjunction([f"rtol {number(rtol)}, atol {number(atol)}" for rtol, atol in different], "or")
    allowed = criterion.measure or pairs
    zeros = "; the sign of a zero counts" if criterion.signed_zero else ""
    return [f"Tolerance: {allowed} ({criterion.source}){zeros}."] if allowed else []


def trace_lines(result: Document) -> list[str]:
    """Where the difference starts and where it grows, as far as that is known."""
    lines = []
    origin, amplifier = result.origin, result.amplifier
    if origin:
        place = f"{origin.file}:{origin.line}" if origin.file else None
        ulp = origin.local_error_ulp
        error = "the sign of a zero" if ulp == 0 else f"{number(ulp)} ulp"
        lines.append(f"Starts at `{origin.node}`{_aside(origin.op, place)}: {error} on equal inputs.")
    if amplifier:
        gain = "without bound" if amplifier.gain == math.inf else f"{number(amplifier.gain)} times"
        lines.append(f"Grows most at `{amplifier.node}`{_aside(amplifier.op)}: {gain}.")
    return lines


def _aside(*facts: str | None) -> str:
    known = [fact for fact in facts if fact]
    return f" ({', '.join(known)})" if known else ""


def fix_facts(fix: Fix, verdict: VerdictPart) -> str:
    """What a fix brings and costs, in one line. Of what raises there is no part to remove."""
    return ", ".join(
        [
            *(_removed(fix) if verdict.class_ is not VerdictClass.RAISES else []),
            *(["the same program as above"] if fix.same_program else []),
            _cost(fix),
            *_elsewhere(fix.other_inputs),
            "confirmed" if fix.confirmed else "not confirmed",
        ]
    )


def _removed(fix: Fix) -> list[str]:
    return [
        f"removes {percent(fix.removed_fraction)}",
        f"residual max abs {number(fix.residual_max_abs)}",
    ]


def _cost(fix: Fix) -> str:
    if fix.slowdown is None:
        return "speed not measured"
    low, high = fix.slowdown_spread or (fix.slowdown, fix.slowdown)
    if low <= 1.0 <= high:
        return "as fast, within noise"
    spread = f" ({low:.2f} to {high:.2f})" if low < high else ""
    return f"{fix.slowdown:.2f}× the time{spread}"


def _elsewhere(others: Elsewhere | None) -> list[str]:
    """How a fix does on inputs that are not the script's."""
    if others is None:
        return []
    tried = count(others.tried, "other input")
    if others.nearer:
        nearer = f"it brings {conjunction(others.nearer)} nearer to eager, and a difference remains"
        return [f"fails on {others.failed} of {tried} ({nearer})"]
    if others.failed:
        why = "not known to remove a cause" if others.nearer is None else "it only changes rounding"
        return [f"fails on {others.failed} of {tried} ({why})"]
    if not others.diverging:
        return [f"none of {tried} diverges"]
    return [f"holds on {others.held} of {count(others.diverging, 'other input')} that diverge"]


def role_words(flag: FlagTried) -> str:
    """A flag's role; one that shrinks or enlarges the difference without repairing it is named for that."""
    if flag.role != "no effect":
        return str(flag.role)
    grown = flag.grown or 0
    if grown >= WORSE:
        return "worse"
    return "partial" if (flag.removed_fraction or 0) > 0 else "no effect"


def flag_before(flag: FlagTried, result: Document) -> str:
    """The value that a flag had in the default compile: the subject's own, else torch's default."""
    return python_literal(result.settings.get(flag.name, flag.default))


def minimal_line(minimal: Minimal) -> str:
    """Size of the minimal case: `4 ops on float32[1, 2] and float32[1]`; what only views or is a constant
    is counted separately."""
    inputs = [tensor(entry.dtype, entry.shape) for entry in minimal.inputs]
    silent = len(minimal.ops) - minimal.n_ops
    views = {0: "", 1: " beside a view or a constant"}.get(silent, f" beside {silent:,} views or constants")
    return count(minimal.n_ops, "op") + views + (f" on {conjunction(inputs)}" if inputs else "")


def probes_line(result: Document) -> str:
    """How much was run and how long it took."""
    probes = result.probes
    outcomes = (("PASS", probes.pass_), ("FAIL", probes.fail), ("UNRESOLVED", probes.unresolved))
    parts = [f"{found} {outcome}" for outcome, found in outcomes if found]
    parts += [f"{probes.cached} remembered"] if probes.cached else []
    by_outcome = f" ({', '.join(parts)})" if parts else ""
    seconds = result.seconds
    cpu = f" ({number(seconds.cpu)} s of CPU time)" if seconds.cpu is not None else ""
    return f"{count(probes.total, 'probe')}{by_outcome} in {number(seconds.total)} s{cpu}"


def versions(result: Document, names: Iterable[str]) -> list[tuple[str, str]]:
    """The named entries of the environment that are known."""
    return [(name, value) for name in names if (value := getattr(result.environment, name))]
