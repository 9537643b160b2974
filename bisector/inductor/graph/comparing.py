"""The lines of a repro and of a test that run eager and compiled, and compare what they give."""

from __future__ import annotations

from .parts import Parts
from .repro_spec import ReproSpec, Tolerance
from .values import value_source

EACH = """\
for (name, rtol, atol), a, e in zip(COMPARED, actual, expected):
    torch.testing.assert_close(a, e, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{name}: {m}")
"""
SIGNS = """\
for a, e in zip(actual, expected):  # -0.0 and +0.0 differ
    torch.testing.assert_close(a.signbit() & (a == 0), e.signbit() & (e == 0))
"""


def runs(parts: Parts) -> list[str]:
    """`expected` is what eager gives, `actual` what compiled does."""
    run = parts.run
    if run.directly:
        return [f"expected = {run.eager}(*inputs())", f"actual = {run.compiled}(*inputs())"]
    return [f"expected = run({run.eager})", f"actual = run({run.compiled})"]


def comparison(spec: ReproSpec) -> list[str]:
    """Raises AssertionError where the two differ; a table of tolerances is needed where there are several."""
    lines = EACH.splitlines()
    if not needs_table(spec):
        ((rtol, atol),) = _rates(spec)
        within = f"rtol={value_source(rtol)}, atol={value_source(atol)}"
        lines = [f"torch.testing.assert_close(actual, expected, {within}, equal_nan=True)"]
    return [*lines, *(SIGNS.splitlines() if spec.signed_zero else [])]


def needs_table(spec: ReproSpec) -> bool:
    """Whether the comparison reads the table `COMPARED`."""
    return len(_rates(spec)) > 1


def _rates(spec: ReproSpec) -> set[Tolerance]:
    return {*spec.tolerances, *spec.grad_tolerances, *spec.input_tolerances}
