"""A release of torch may rename what a hook imports: the kind is then off and says so, and the rest works."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bisector.inductor import hooks

FOLDER = Path(hooks.__file__).parent
# Takes one name away in a fork and installs the hooks there; one line of JSON for each name.
EACH = """
import importlib, json, os, sys
import torch, torch._inductor.compile_fx, torch._inductor.scheduler, torch._inductor.codegen.triton
import bisector.errors, bisector.core.kinds, bisector.inductor.control, bisector.inductor.naming

class Gone:
    def __init__(self, name):
        self.name = name

    def find_spec(self, name, *more):
        if name == self.name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for owner, name in json.loads(sys.argv[1]):
    full = f"{owner}.{name}"
    try:
        importlib.import_module(full)
    except ModuleNotFoundError:
        pass  # it is no module
    if os.fork() == 0:
        delattr(importlib.import_module(owner), name)
        sys.modules.pop(full, None)
        sys.meta_path.insert(0, Gone(full))
        from bisector.inductor import hooks
        hooks.install()
        print(json.dumps([owner, name, hooks.disabled()]), flush=True)
        os._exit(0)
    os.wait()
"""


def internals() -> dict[tuple[str, str], set[str]]:
    """Each name of torch's insides that a hook's module imports at its top, with these modules."""
    found: dict[tuple[str, str], set[str]] = {}
    for path in FOLDER.glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch._inductor"):
                for alias in node.names:
                    found.setdefault((str(node.module), alias.name), set()).add(path.stem)
    return found


@pytest.mark.live
def test_a_name_that_is_gone_switches_off_the_kinds_that_need_it_and_no_worker_dies() -> None:
    names = internals()
    assert len(names) > 20
    done = subprocess.run(
        [sys.executable, "-c", EACH, json.dumps(list(names))], capture_output=True, text=True, check=True
    )
    off = {(owner, name): kinds for owner, name, kinds in map(json.loads, done.stdout.splitlines())}
    assert off.keys() == names.keys()
    kind_of = {module: kind for kind, module in (hooks._MODULES | hooks._TRITON_MODULES).items()}
    for key, modules in names.items():
        for kind in {kind_of[module] for module in modules if module in kind_of}:
            assert kind in off[key], (key, kind)
            assert key[1] in off[key][kind], (key, off[key][kind])
