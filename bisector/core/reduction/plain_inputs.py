"""Passes that make the inputs plainer as they are: what lies oddly in memory lies as a new tensor does."""

from __future__ import annotations

from .problem import Problem

# Where so many inputs in a row need their strides, the rest (weights of equal layers) mostly does too.
GIVE_UP_AFTER = 4


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
