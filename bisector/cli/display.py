"""Progress on stderr, one live line on a terminal and plain lines elsewhere; and the result on stdout."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.status import Status
from rich.text import Text

from bisector.core.progress import Step
from bisector.errors import CannotWrite
from bisector.report.literal import Literal
from bisector.report.progress import words


def to_stdout(text: str) -> None:
    """Print a result. A reader that has seen enough changes nothing of the answer's exit status.

    Raises CannotWrite where stdout is a file that cannot take it.
    """
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        _to_nowhere(1)
    except OSError as error:
        _to_nowhere(1)
        again = "print the result again with `numbisect report`"
        raise CannotWrite(f"stdout: {error.strerror}; {again}") from error


def complain(line: str) -> None:
    """Tell on stderr of an error that does not end the command; --quiet leaves it, too."""
    with contextlib.suppress(OSError):  # a full disk behind stderr: the answer does not depend on it
        print(f"numbisect: {line}", file=sys.stderr, flush=True)


def _to_nowhere(descriptor: int) -> None:
    """What Python still holds for this stream must not fail once more when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


class Display:
    """Tells the stages of a run. Stage `probe` is one probe done; any other is a finding worth a line."""

    def __init__(
        self, quiet: bool, verbose: bool, no_color: bool, budget_s: float | None, lines: bool = False
    ) -> None:
        """lines: findings go to stdout, a JSON object each (report/lines.schema.json), and not to stderr."""
        self.console = Literal(stderr=True, no_color=no_color or None, soft_wrap=True)
        self.quiet = quiet
        self.verbose = verbose
        self.budget_s = budget_s
        self.lines = lines
        self.started = time.monotonic()
        self.probes = 0
        self.stage = "starting"
        self.live: Status | None = None

    def __enter__(self) -> Display:
        # The live line would take what is printed to stdout for its own.
        if self.console.is_terminal and not (self.quiet or self.lines):
            self.live = self.console.status(self._line())
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.stop()

    def progress(self, stage: str, step: Step) -> None:
        """What a run tells."""
        self.tell(stage, words(step))

    def tell(self, stage: str, text: str) -> None:
        """The same in words."""
        if stage == "probe":
            self.probes += 1
            if self.verbose:
                self.say(f"probe {self.probes}: {text}")
        elif self.lines:
            self.learned({"stage": stage, "text": text})
        elif not self.quiet:
            self.stage = f"{stage}: {text}"
            self.say(self.stage)
        if self.live is not None:
            self.live.update(self._line())

    def learned(self, what: Mapping[str, Any]) -> None:
        """A line of JSON on stdout, with the seconds since the start and the probes by now."""
        known = {"seconds": round(self._elapsed(), 2), "probes": self.probes}
        to_stdout(json.dumps({**known, **what}) + "\n")

    def say(self, line: str) -> None:
        """One line that stays, with the time since the start."""
        try:
            self.console.print(Text(f"[{self._elapsed():6.1f} s] {line}"))
        except OSError:  # a full disk behind stderr: the answer does not depend on it
            self.console.quiet = True

    def _line(self) -> Text:
        left = "" if self.budget_s is None else f", {max(self.budget_s - self._elapsed(), 0):.0f} s left"
        return Text(f"{self.stage} | {self.probes} probes, {self._elapsed():.0f} s{left}")

    def _elapsed(self) -> float:
        return time.monotonic() - self.started
