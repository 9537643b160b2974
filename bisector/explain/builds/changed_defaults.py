"""Whether a change between two builds is a default that changed: the newer build is asked once more under the
older defaults, first all of them, then one by one. A divergence that comes with a build may have been there
before, behind a setting that was off.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from typing import Any

from bisector import processes
from bisector.builds.line import Source
from bisector.builds.predicate import CannotInstall, Interpreter, environment_of
from bisector.core.budget import BudgetSpent
from bisector.core.found_builds import ChangedDefaults

from .bisection import Found
from .build_test import BuildTest

MOST = 16  # settings that are tried one by one; the releases so far have changed fewer
_IMPORT_S = 300.0
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

_Defaults = Mapping[str, Any]


def _defaults(where: Interpreter) -> _Defaults:
    """By the names users write, of settings that are plain values; none where the build does not say."""
    with tempfile.TemporaryDirectory(prefix="numbisect-") as folder:
        command = [str(where.python), "-c", _PROGRAM]
        done = processes.run(command, _IMPORT_S, folder=folder, environment=environment_of(where, folder))
    last_line = next(reversed(done.out.splitlines()), "")
    found: _Defaults = json.loads(last_line) if done.status == 0 and last_line else {}
    return found


def _changed(older: _Defaults, newer: _Defaults) -> dict[str, Any]:
    """The settings that both have, with other defaults: those of the older one."""
    return {name: older[name] for name in sorted(older.keys() & newer.keys()) if older[name] != newer[name]}


def changed_defaults(found: Found, asking: BuildTest, source: Source) -> ChangedDefaults | None:
    """None where the defaults of one of the builds are not known, or it could not be asked again."""
    assert found.bracket is not None
    before, after = found.bracket.before, found.bracket.after
    try:
        known = [_defaults(source.interpreter(name)) for name in (before, after)]
        if not all(known):
            return None
        older = _changed(*known)
        newer = {name: known[1][name] for name in older}
        wanted = asking.result(before).outcome
        if not older or asking.under(after, older) is not wanted:
            return ChangedDefaults(older, newer)
        names = list(older)[:MOST] if len(older) > 1 else []
        alone = [(name,) for name in names if asking.under(after, {name: older[name]}) is wanted]
        return ChangedDefaults(older, newer, tuple(alone) or (tuple(older),))
    except (BudgetSpent, CannotInstall):
        return None
