"""Wall time by stage, and the budget of the whole run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

STAGES = ("capture", "localise", "causes", "fixes", "minimize", "builds")


class Clock:
    """Seconds of each stage that ran; `exhausted` says when the budget is spent."""

    def __init__(self, budget_s: float | None) -> None:
        self.started = time.monotonic()
        self.budget_s = budget_s
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - begun

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def exhausted(self) -> str | None:
        if self.budget_s is not None and self.elapsed() > self.budget_s:
            return f"the budget of {self.budget_s:g} s is spent"
        return None

    def left_s(self) -> float | None:
        """Of the budget; None where there is none."""
        return None if self.budget_s is None else max(self.budget_s - self.elapsed(), 0.0)

    def to_json(self) -> dict[str, float | None]:
        rounded: dict[str, float | None] = {"total": round(self.elapsed(), 2)}
        for stage in STAGES:
            value = self.seconds.get(stage)
            rounded[stage] = None if value is None else round(value, 2)
        return rounded
