"""Stand-ins by which a script that runs in a thread of ours finds itself in the main thread: Python lets no
other one set signal handlers, and asyncio asks for that.

No signal is handled so: a handler is remembered, and an alarm never goes off.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any


class MainThread:
    """The thread in which it is made, as the main thread. It holds for that thread alone."""

    def __init__(self) -> None:
        self.thread = threading.current_thread()
        self._handlers: dict[int, Any] = {}
        self._wakeup_fd = -1

    def stand_ins(self) -> list[tuple[Any, str, Any]]:
        """(owner, name, stand-in) of each function; none where the thread is the main one."""
        if self.thread is threading.main_thread():
            return []
        ours: dict[str, Callable[..., Any]] = {
            "signal": self._signal, "getsignal": self._getsignal, "set_wakeup_fd": self._set_wakeup_fd,
            "alarm": lambda seconds: 0, "setitimer": lambda which, seconds, interval=0.0: (0.0, 0.0),
        }  # fmt: skip
        found = [(signal, name, self._here(getattr(signal, name), made)) for name, made in ours.items()]
        return [*found, (threading, "main_thread", self._here(threading.main_thread, lambda: self.thread))]

    def _here(self, original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
        """`ours` in the script's thread, the original in every other."""

        def called(*args: Any, **kwargs: Any) -> Any:
            made = ours if threading.current_thread() is self.thread else original
            return made(*args, **kwargs)

        called.__name__ = getattr(original, "__name__", "called")
        return called

    def _signal(self, number: int, handler: Any) -> Any:
        before = self._getsignal(number)
        self._handlers[number] = handler
        return before

    def _getsignal(self, number: int) -> Any:
        return self._handlers[number] if number in self._handlers else _getsignal(number)

    def _set_wakeup_fd(self, fd: int, *, warn_on_full_buffer: bool = True) -> int:
        before, self._wakeup_fd = self._wakeup_fd, fd
        return before


_getsignal = signal.getsignal
