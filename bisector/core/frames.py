"""What a script says on stderr without the frames of the compiler: a traceback or a warning of the script's
names those that its calls go through, which are others where compilation is off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_OF_THE_COMPILER = r"/(?:torch/_(?:dynamo|inductor|functorch)|bisector/inductor/(?:program|capture))/"
# As the modules `traceback` and `warnings` write them, each with the line of source indented beneath.
_FRAME = re.compile(rf'( *)File "[^"]*{_OF_THE_COMPILER}[^"]*", line \d+, in ')
_PLACE = re.compile(rf"[^:]*{_OF_THE_COMPILER}[^:]*:\d+: (?=\w*Warning\b)")


def without_frames(lines: Iterable[str]) -> list[str]:
    """The lines without frames of the compiler and of what watches its calls. Of a warning that is ascribed
    to one its words stay."""
    found, beneath = list[str](), None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if beneath is not None and indent > beneath:
            continue
        frame, place = _FRAME.match(line), _PLACE.match(line)
        beneath = len(frame[1]) if frame is not None else 0 if place is not None else None
        if frame is None:
            found.append(line if place is None else line[place.end() :])
    return found
