"""What two runs were compared in: without it no verdict says that they agree."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Compared:
    """values: outputs, arguments, state and gradients that were held against each other; unequal: those of
    them whose bits differ, within the tolerance; calls: of compiled functions; comparisons: of the script's
    own; lines: that it wrote on stdout, on stderr or into files; ends: how each of the two runs ended,
    where that was compared. unseen: what was not compared, and why; empty where all of it was.
    """

    values: int = 0
    unequal: int = 0
    calls: int = 0
    comparisons: int = 0
    lines: int = 0
    ends: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    @property
    def is_proof(self) -> bool:
        """Whether something was compared, and nothing was left out."""
        return bool(self.values or self.ends) and not self.unseen


class NothingCompared(ValueError):
    """An agreement was put together without what was compared: a fault of numbisect's own."""


def must_prove(compared: Compared | None) -> None:
    """Raises NothingCompared where this is no ground to say that two runs agree."""
    if compared is None or not compared.is_proof:
        raise NothingCompared(f"an agreement must carry what was compared: {compared}")
