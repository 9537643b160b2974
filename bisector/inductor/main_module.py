"""A script executed as Python executes it: as the module `__main__`.

The standard library alone is imported: `program.run_script` executes a script before anything else is.
"""

from __future__ import annotations

import linecache
import os
import sys
import tokenize
import types
from collections.abc import Callable, Sequence
from typing import Any


def execute(script: str, disabled: Sequence[int] = (), edited: Callable[[str], str] = str) -> dict[str, Any]:
    """Run the file; its names, when it has come to its end. The module stays, since functions of it are
    compiled later again. disabled: lines, from 1, of definitions that `torch.compiler.disable` is put before.
    edited: what is run in the place of its text. Raises what the script raises.
    """
    sys.argv = [script]
    sys.path.insert(0, os.path.dirname(os.path.realpath(script)))  # as Python does, past links
    module = types.ModuleType("__main__")
    module.__file__ = script
    with tokenize.open(script) as file:
        lines = file.readlines()
    for number in sorted(disabled, reverse=True):
        definition = lines[number - 1]
        indent = definition[: len(definition) - len(definition.lstrip())]
        lines.insert(number - 1, f"{indent}@__import__('torch').compiler.disable\n")
    source = edited("".join(lines))
    linecache.checkcache(script)
    sys.modules["__main__"] = module
    # Else what this file imports from __future__ would hold for the script.
    exec(compile(source, script, "exec", dont_inherit=True), module.__dict__)
    return module.__dict__
