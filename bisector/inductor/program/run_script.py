"""Runs a script as its user would, and has it watched: `python run_script.py OPTIONS SCRIPT`.

Nothing is imported before the script's first line but the standard library: what the script puts into
`os.environ` before it imports torch must hold. The watching begins as torch's import ends. OPTIONS is the
JSON of `core.program.PlainOptions`.
"""

from __future__ import annotations

import atexit
import builtins
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import os
import random
import sys
import tokenize
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
        from bisector.inductor.program import watching

        finish.append(watching.begin(options, note))

    def leave(status: int) -> None:
        end()
        original(status)

    def end() -> None:
        while finish:
            finish.pop()()

    for line in options.get("early", ()):
        exec(line, {"os": os})
    builtins.print = printing(builtins.print, lambda text: note(said=text))
    sys.meta_path.insert(0, _AfterTorch(begin))
    original, os._exit = os._exit, leave  # type: ignore[assignment]
    # After what the script registers for its end, which may call what it compiles.
    atexit.register(end)
    try:
        execute(script, options["seed"], options.get("disabled", ()))
    except SystemExit:
        raise
    except BaseException as error:
        note(ended=describe_error(error))
        raise


def printing(original: Callable[..., None], tell: Callable[[str], None]) -> Callable[..., None]:
    """`print`, which tells what is meant for stderr too: there the libraries write as well."""

    @functools.wraps(original)
    def printed(*values: Any, **options: Any) -> None:
        original(*values, **options)
        if options.get("file") is sys.stderr and options["file"] is not None:
            original(*values, **{**options, "file": (kept := io.StringIO()), "flush": False})
            tell(kept.getvalue())

    return printed


def execute(script: str, seed: int, disabled: Sequence[int] = ()) -> None:
    """The script as `__main__`. seed: of Python's generator. disabled: as in `RunOptions`. Raises what it
    raises."""
    random.seed(seed)
    sys.argv = [script]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    module = types.ModuleType("__main__")
    module.__file__ = script
    with tokenize.open(script) as file:
        lines = file.readlines()
    for number in sorted(disabled, reverse=True):
        definition = lines[number - 1]
        indent = definition[: len(definition) - len(definition.lstrip())]
        lines.insert(number - 1, f"{indent}@__import__('torch').compiler.disable\n")
    source = "".join(lines)
    sys.modules["__main__"] = module
    # Else what this file imports from __future__ would hold for the script.
    exec(compile(source, script, "exec", dont_inherit=True), module.__dict__)


def describe_error(error: BaseException) -> str:
    """Type and first line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300]}" if text else type(error).__name__


def status_of(left: SystemExit) -> int:
    """The exit status that the interpreter gives for it."""
    if left.code is None:
        return 0
    return left.code if isinstance(left.code, int) else 1


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file
    run(json.loads(sys.argv[1]), sys.argv[2])
