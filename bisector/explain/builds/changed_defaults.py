"""Whether a change between two builds is a default that changed: the newer build is asked once more under the
older defaults, first all of them, then one by one.
"""

from __future__ import annotations

from bisector.builds.defaults import changed, defaults
from bisector.builds.line import Source
from bisector.builds.predicate import CannotInstall
from bisector.core.budget import BudgetSpent
from bisector.core.found_builds import ChangedDefaults

from .bisection import Found
from .build_test import BuildTest

MOST = 16  # settings that are tried one by one; the releases so far have changed fewer


def changed_defaults(found: Found, asking: BuildTest, source: Source) -> ChangedDefaults | None:
    """None where the defaults of one of the builds are not known, or it could not be asked again."""
    assert found.bracket is not None
    before, after = found.bracket.before, found.bracket.after
    try:
        known = [defaults(source.interpreter(name)) for name in (before, after)]
        if not all(known):
            return None
        older = changed(*known)
        newer = {name: known[1][name] for name in older}
        wanted = asking.result(before).outcome
        if not older or asking.under(after, older) is not wanted:
            return ChangedDefaults(older, newer)
        names = list(older)[:MOST] if len(older) > 1 else []
        alone = [(name,) for name in names if asking.under(after, {name: older[name]}) is wanted]
        return ChangedDefaults(older, newer, tuple(alone) or (tuple(older),))
    except (BudgetSpent, CannotInstall):
        return None
