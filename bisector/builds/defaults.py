"""Settings that have another default in one build than in the next: a divergence that comes with a build may
have been there before, behind a setting that was off.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from typing import Any

from bisector import processes

from .predicate import Interpreter, environment_of

IMPORT_S = 300.0
# For another interpreter than numbisect's. Before torch 2.6 the tables hold the defaults themselves.
_PROGRAM = """
import importlib, json
found = {}
for family in ("inductor", "functorch", "dynamo"):
    try:
        settings = importlib.import_module("torch._" + family + ".config")._config
    except (ImportError, AttributeError):
        continue
    for name, entry in settings.items():
        default = getattr(entry, "default", entry)
        if isinstance(default, (bool, int, float, str, type(None))):
            found[family + "." + name] = default
print(json.dumps(found))
"""

Defaults = Mapping[str, Any]


def defaults(where: Interpreter) -> Defaults:
    """By the names users write, of settings that are plain values; none where the build does not say."""
    with tempfile.TemporaryDirectory(prefix="numbisect-") as folder:
        command = [str(where.python), "-c", _PROGRAM]
        done = processes.run(command, IMPORT_S, folder=folder, environment=environment_of(where, folder))
    last_line = next(reversed(done.out.splitlines()), "")
    found: Defaults = json.loads(last_line) if done.status == 0 and last_line else {}
    return found


def changed(older: Defaults, newer: Defaults) -> dict[str, Any]:
    """The settings that both have, with other defaults: those of the older one."""
    return {name: older[name] for name in sorted(older.keys() & newer.keys()) if older[name] != newer[name]}
