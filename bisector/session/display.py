"""Progress on stderr: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.status import Status
from rich.text import Text


class Display:
    """Tells the stages of a run. `progress(stage, text)`: stage `probe` is one probe done; any other is a
    finding worth a line."""

    def __init__(self, quiet: bool, verbose: bool, no_color: bool, budget_s: float | None) -> None:
        self.console = Console(stderr=True, no_color=no_color or None, highlight=False, soft_wrap=True)
        self.quiet = quiet
        self.verbose = verbose
        self.budget_s = budget_s
        self.started = time.monotonic()
        self.probes = 0
        self.stage = "starting"
        self.live: Status | None = None

    def __enter__(self) -> Display:
        if self.console.is_terminal and not self.quiet:
            self.live = self.console.status(self._line())
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.stop()

    def progress(self, stage: str, text: str) -> None:
        if stage == "probe":
            self.probes += 1
            if self.verbose:
                self.say(f"probe {self.probes}: {text}")
        elif not self.quiet:
            self.stage = f"{stage}: {text}"
            self.say(self.stage)
        if self.live is not None:
            self.live.update(self._line())

    def say(self, line: str) -> None:
        """One line that stays, with the time since the start."""
        self.console.print(Text(f"[{self._elapsed():6.1f} s] {line}"))

    def _line(self) -> Text:
        left = "" if self.budget_s is None else f", {max(self.budget_s - self._elapsed(), 0):.0f} s left"
        return Text(f"{self.stage} | {self.probes} probes, {self._elapsed():.0f} s{left}")

    def _elapsed(self) -> float:
        return time.monotonic() - self.started
