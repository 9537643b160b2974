"""Elements that are far from the float64 reference at their own size, as small ones may be where another is
large."""

from __future__ import annotations

from dataclasses import dataclass

# Of so many elements or fewer, 4 to 1 (twice the rms error) fall on one side by chance more often than once
# in a hundred.
FEW = 16
# Times what one ulp at each operation moves eager by, or the rounding of the coarsest dtype: sums of a
# million terms in another order are off by no more.
FAR = 1000.0
NOTICED = 0.1  # of the largest element: of a coarse dtype that is less than FAR steps


@dataclass(frozen=True)
class FarElements:
    """Elements that are far from the reference, each in steps of its own size (`far_steps`).

    compiled: how many are so in compiled alone; eager: how many in eager alone. by: the absolute difference
    of the two runs that the last of the seventeen that differ most has (one more than `FEW`), of those that
    are far in compiled alone; 0 where they are fewer.
    """

    compiled: int
    eager: int
    by: float


def far_steps(eps: float) -> float:
    """Of how many steps of its own size an element that is far off is off by, at least. eps: of its dtype."""
    return min(FAR, NOTICED / eps)
