"""Prints the values of flags in the installed torch: `python -m bisector.inductor.flag_values NAME…`."""

from __future__ import annotations

import json
import sys

from . import ambient


def values(names: list[str]) -> dict[str, object]:
    """{name: value}; names that this torch does not have are left out."""
    found: dict[str, object] = {}
    for name in names:
        try:
            value = ambient.current_flag(name)
        except KeyError:
            continue
        found[name] = value if isinstance(value, (bool, int, float, str, type(None))) else repr(value)
    return found


if __name__ == "__main__":
    json.dump(values(sys.argv[1:]), sys.stdout)
