"""Which of two runs is farther from the float64 reference; core/accuracy.py tells it."""

from __future__ import annotations

import enum


class Leaning(enum.Enum):
    """How compiled stands to the reference, against eager."""

    WORSE = "farther"
    BETTER = "closer"
    ALIKE = "about as far"
    ROUNDS = "no farther than rounding explains"  # farther than eager is, or nearer
    INCONCLUSIVE = "not known"
