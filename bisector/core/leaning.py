"""Which of two runs is farther from the float64 reference; core/accuracy.py tells it."""

from __future__ import annotations

import enum


class Leaning(enum.Enum):
    """How compiled stands to the reference, against eager."""

    WORSE = "worse"
    BETTER = "better"
    ALIKE = "alike"
    ROUNDS = "rounds"  # farther than eager is, or nearer
    INCONCLUSIVE = "inconclusive"
