"""Passes that make inputs plainer and no smaller: the strides of a new tensor, the dtype that torch takes."""

from __future__ import annotations

from .problem import Problem

# Where so many inputs in a row need their strides, the rest (weights of equal layers) mostly does too.
GIVE_UP_AFTER = 4
PLAINEST = "float32"
OTHERS = frozenset({"float16", "bfloat16", "float64"})


def make_contiguous(problem: Problem) -> None:
    """Inputs that are transposed, expanded or parts of others lie as new tensors: all at once, else each."""
    odd = [node.name for node in problem.info.inputs if not node.contiguous]
    if not odd or problem.first_interesting([problem.case.with_contiguous(*odd)]) or len(odd) == 1:
        return
    in_vain = 0
    for name in odd:
        if in_vain < GIVE_UP_AFTER:
            taken = problem.first_interesting([problem.case.with_contiguous(name)])
            in_vain = 0 if taken else in_vain + 1


def simplify_dtype(problem: Problem) -> None:
    """All floating-point inputs in float32, where it is the same bug there.

    Another dtype is held to other tolerances and rounds elsewhere, so that a difference of rounding may take
    the bug's place under the same signature: only repairs tell the two apart.
    """
    if problem.anchored and any(node.dtype in OTHERS for node in problem.info.inputs):
        problem.first_interesting([problem.case.with_dtype(PLAINEST)])
