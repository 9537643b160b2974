"""The elements of a tensor as lists of numbers in source text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .bits import raw_bytes
from .values import LINE_WIDTH, filled, value_source


def tensor_source(value: torch.Tensor, keywords: str) -> str:
    """A call of torch.tensor with the elements. keywords: what stands behind them, from the comma on.

    Rows stand as rows, except where brackets around few numbers each make the text longer by lines.
    """
    rows = f"torch.tensor({_nested(shortest(value))}{keywords})"
    flat = f"torch.tensor({_nested(shortest(value.reshape(-1)))}{keywords}).reshape{tuple(value.shape)}"
    return flat if value.dim() > 1 and flat.count("\n") + 1 < rows.count("\n") else rows


def shortest(value: torch.Tensor) -> Any:
    """The elements as nested lists, each a number whose text is as short as it can be."""
    if value.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return value.tolist()
    flat = value.reshape(-1)
    exact = flat.tolist()
    best = list(exact)
    for digits in range(9, 0, -1):  # nine digits always tell two float32 apart
        shorter = [float(f"{number:.{digits}g}") for number in exact]
        kept = raw_bytes(torch.tensor(shorter, dtype=value.dtype)) == raw_bytes(flat.cpu())
        best = [s if k else b for s, k, b in zip(shorter, kept.all(dim=1).tolist(), best, strict=True)]
    numbers = iter(best)

    def nest(shape: Sequence[int]) -> Any:
        return [nest(shape[1:]) for _ in range(shape[0])] if shape else next(numbers)

    return nest(value.shape)


def _nested(nested: Any, indent: int = 8) -> str:
    """Nested lists of numbers as text: on one line, or with as many rows on a line as it holds."""
    if not isinstance(nested, list):
        return value_source(nested)
    line = value_source(nested)
    room = LINE_WIDTH - (indent if indent > 8 else 40)  # the outermost stands behind `name = torch.tensor(`
    if len(line) <= room:
        return line
    if len(nested) == 1:
        return f"[{_nested(nested[0], indent)}]"
    margin = " " * indent
    rows = [value_source(row) for row in nested]
    if all(len(row) < LINE_WIDTH - indent for row in rows):
        return "[\n" + filled(rows, margin) + f"\n{margin[4:]}]"
    rows = [margin + _nested(row, indent + 4) for row in nested]
    return "[\n" + ",\n".join(rows) + f"\n{margin[4:]}]"
