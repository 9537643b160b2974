"""Writes a divergence as a test for pytest: it fails while compiled differs from eager."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from torch import fx

from ...core.fix_source import PlainFix, UseBackend, uncached_lines
from ..naming import op_name
from .comparing import comparison, needs_table, runs
from .parts import comment, imports_source, joined_blocks, parts_of
from .repro_spec import ReproSpec
from .restored import restored
from .settings_source import check_fix
from .values import value_source

MOST_NAMED = 4  # operations in the name of a test


def write_test(spec: ReproSpec) -> str:
    """The text of the file: what the repro of the spec compares. The fix is a comment.

    Whether the test fails is for the caller to find out in a fresh process. Raises CannotWrite where
    something has no exact text, is unknown to this torch, or could not be put back after the test.
    """
    parts, settings = parts_of(replace(spec, fix=None)), restored(spec)
    lines = ["torch._dynamo.reset()", *runs(parts), *comparison(spec)]
    test = [*settings.decorators, f"def {name_of_test(spec.gm)}():", *(f"    {line}" for line in lines)]
    blocks = [
        parts.function.text,
        parts.inputs.text,
        parts.grads.text,
        parts.run.compared if needs_table(spec) else "",
        "" if parts.run.directly else parts.run.text,
        settings.context,
        "\n".join(test),
        parts.data,
    ]
    imports = imports_source({*parts.function.imports, *settings.imports}, blocks)
    return joined_blocks([f"{_head(spec)}\n{imports}", *blocks])


def name_of_test(gm: fx.GraphModule) -> str:
    """`test_mul_sub_agrees_with_eager`, after the operations of the graph where they are few."""
    calls = [op_name(node) for node in gm.graph.nodes if node.op in ("call_function", "call_method")]
    words = dict.fromkeys(re.sub(r"\W", "_", name.rpartition(".")[2]).strip("_") for name in calls)
    named = "_".join(words) if 0 < len(words) <= MOST_NAMED else "compiled"
    return f"test_{named}_agrees_with_eager"


def _head(spec: ReproSpec) -> str:
    lines = [*(spec.header or ["torch.compile differs from eager."])]
    lines += [("     " if position else "Fix: ") + line for position, line in enumerate(_fixing(spec.fix))]
    return comment([*lines, "", f"python -m pytest {spec.file}   fails while compiled differs"])


def _fixing(fix: PlainFix | None) -> Iterator[str]:
    """The fix as lines of Python."""
    if isinstance(fix, UseBackend):
        yield f"torch.compile(..., backend={value_source(fix.backend)})"
    elif fix is not None:
        check_fix(fix)
        yield from uncached_lines(fix)
