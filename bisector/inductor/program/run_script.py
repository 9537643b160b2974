"""Runs a script as its user would, and has it watched: `python run_script.py OPTIONS SCRIPT`.

Nothing is imported before the script's first line but the standard library: what the script puts into
`os.environ` before it imports torch must hold. The watching begins as torch's import ends. OPTIONS is the
JSON of `core.program.PlainOptions`.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import sys
import sysconfig
import types
from collections.abc import Callable, Sequence
from typing import Any


class _AfterTorch(importlib.abc.MetaPathFinder):
    """Calls a function once torch has been imported."""

    def __init__(self, then: Callable[[], None]) -> None:
        self.then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            execute(module)
            self.then()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def run(options: dict[str, Any], script: str) -> None:
    """Raises what the script raises."""
    events = open(options["events"], "w", buffering=1, encoding="utf-8")  # noqa: SIM115 - until the very end

    def note(**event: Any) -> None:
        events.write(json.dumps(event) + "\n")

    before = dict(os.environ)
    finish: list[Callable[[], None]] = []

    def begin() -> None:
        note(environment={k: v for k, v in os.environ.items() if before.get(k) != v})
        if options["root"] not in sys.path:
            sys.path.append(options["root"])
        from bisector import wire
        from bisector.core.program import PlainOptions
        from bisector.inductor.program import watch

        finish.append(watch.begin(wire.load(PlainOptions, options), note))
        import torch

        torch.save = files.saving(torch.save)

    def leave(status: int) -> None:
        end()
        original(status)

    def end() -> None:
        while finish:
            finish.pop()()
        if lines := files.lines():
            note(wrote=lines)

    for line in options.get("early", ()):
        exec(line, {"os": os})
    files = Files(script)
    sys.addaudithook(files.opened)
    hear(sys.stderr, lambda text: note(said=text))
    sys.meta_path.insert(0, _AfterTorch(begin))
    original, os._exit = os._exit, leave  # type: ignore[assignment]
    # After what the script registers for its end, which may call what it compiles.
    atexit.register(end)
    try:
        random.seed(options["seed"])
        _main_module().execute(script, options.get("disabled", ()))
    except SystemExit as left:
        note(said=last_words(left))
        raise
    except BaseException as error:
        note(ended=describe_error(error))
        raise


def _main_module() -> Any:
    """`inductor.main_module`, by its file: the package is not imported before the script's first line."""
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "main_module.py")
    spec = importlib.util.spec_from_file_location("numbisect_main_module", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- what it says on stderr, and the files that it writes ----------------------------------------------------


_STDLIB = sysconfig.get_paths()["stdlib"]
_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_PACKAGES = ("site-packages", "dist-packages")
# What these write are caches, and no results of the script's.
_OF_COMPILERS = (
    "torch/_inductor", "torch/_dynamo", "torch/_functorch", "packages/triton", "cpp_extension",
    "<frozen importlib",
)  # fmt: skip
_BY_TORCH_ITSELF = "(Triggered internally at"  # c10/util/Exception.cpp: a warning from C++
MOST_BYTES = 8 << 20  # of a file whose lines are compared; of a larger one a digest


def is_the_users(frame: types.FrameType | None, over_packages: bool = False) -> bool:
    """Whether it is the script, or a module next to it, that calls from there: through the standard library
    (logging, warnings, json), and through packages too where that is asked."""
    while frame is not None:
        name = frame.f_code.co_filename
        if any(part in name for part in _OF_COMPILERS):
            return False
        package = any(part in name for part in _PACKAGES)
        if name.startswith(_OURS) or (package and not over_packages):
            return False
        if not package and not name.startswith((_STDLIB, "<frozen")):
            return True
        if frame.f_back is None and frame.f_code.co_name == "_bootstrap":
            return over_packages  # a thread that the script gave a function of a library's
        frame = frame.f_back
    return False


def hear(stream: Any, tell: Callable[[str], None]) -> None:
    """Tells what the script itself writes to stderr: there the libraries and the interpreter write too."""
    original = stream.write

    def write(text: str) -> Any:
        if is_the_users(sys._getframe().f_back) and _BY_TORCH_ITSELF not in text:
            tell(text)
        return original(text)

    if stream is not None:
        stream.write = write


class Files:
    """The files that the script writes, each with how long it was where the script adds to it, and folders
    that it makes."""

    def __init__(self, script: str) -> None:
        self.near = (os.getcwd(), os.path.dirname(os.path.abspath(script)))
        self.written: dict[str, int] = {}

    def opened(self, event: str, given: tuple[Any, ...]) -> None:
        """A hook of Python's audit events."""
        if event == "os.rename":
            before, after = (os.path.abspath(os.fsdecode(name)) for name in given[:2])
            if before in self.written:
                self.written[after] = self.written.pop(before)
        if event == "os.mkdir" and os.path.basename(os.fsdecode(given[0])) != "__pycache__":
            self._note(os.fsdecode(given[0]), False, sys._getframe().f_back)
        if event == "sqlite3.connect" and isinstance(given[0], (str, bytes)):
            self._note(os.fsdecode(given[0]), False, sys._getframe().f_back)
        if event != "open" or not isinstance(given[0], (str, bytes)):
            return
        mode, flags = given[1] or "", given[2] or 0
        if set(mode) & set("wax+") or (not mode and flags & (os.O_WRONLY | os.O_RDWR)):
            adds = "a" in mode or bool(flags & os.O_APPEND)
            self._note(os.fsdecode(given[0]), adds, sys._getframe().f_back)

    def saving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """torch.save, which opens files where Python does not see it."""

        def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(f, (str, os.PathLike)):
                self._note(os.fspath(f), False, sys._getframe().f_back)
            return original(obj, f, *args, **kwargs)

        return save

    def _note(self, name: str, adds: bool, frame: types.FrameType | None) -> None:
        path = os.path.abspath(name)
        # Not `tempfile.gettempdir`, which opens a file itself, under a lock.
        passing = path.startswith((os.environ.get("TMPDIR", "/tmp"), "/var/tmp", "/dev", "/proc"))
        passing = passing and not path.startswith(self.near)
        if path not in self.written and not passing and is_the_users(frame, over_packages=True):
            self.written[path] = os.path.getsize(path) if adds and os.path.exists(path) else 0

    def lines(self) -> list[str]:
        """What is in them now, each line after the name of its file."""
        found = ((os.path.relpath(path), self._read(path)) for path in sorted(self.written))
        return [f"{name}: {line}" for name, lines in found for line in lines]

    def _read(self, path: str) -> list[str]:
        if os.path.isdir(path):
            return ["is a folder"]
        try:
            with open(path, "rb") as file:
                file.seek(self.written[path])
                content = file.read()
        except OSError:
            return ["is gone"]
        try:
            text = content.decode("utf-8") if len(content) <= MOST_BYTES else None
        except UnicodeDecodeError:
            text = None
        if text is None:
            return [f"{len(content)} bytes, sha256 0x{hashlib.sha256(content).hexdigest()[:16]}"]
        return text.splitlines() or ["is empty"]


def describe_error(error: BaseException) -> str:
    """Type and first line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300]}" if text else type(error).__name__


def last_words(left: SystemExit) -> str:
    """What the interpreter prints on stderr for it; empty where it prints nothing."""
    return "" if isinstance(left.code, (int, type(None))) else f"{left.code}\n"


def status_of(left: SystemExit) -> int:
    """The exit status that the interpreter gives for it."""
    if left.code is None:
        return 0
    return left.code if isinstance(left.code, int) else 1


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file
    run(json.loads(sys.argv[1]), sys.argv[2])
