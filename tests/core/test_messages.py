"""Objects come out of a stream whole and in order, however its bytes were cut."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from bisector.core.messages import Lines

OBJECTS = st.dictionaries(st.text(), st.integers() | st.text() | st.none())


@given(st.lists(OBJECTS), st.integers(1, 7))
def test_objects_come_out_in_order_however_the_bytes_are_cut(objects: list[object], size: int) -> None:
    stream = b"".join(json.dumps(o).encode() + b"\n" for o in objects)
    lines, found = Lines(), []
    for at in range(0, len(stream), size):
        lines.feed(stream[at : at + size])
        while (taken := lines.take()) is not None:
            found.append(taken)
    assert found == objects


def test_a_line_without_its_end_is_not_taken() -> None:
    lines = Lines()
    lines.feed(b'{"id": 1}')
    assert lines.take() is None
    lines.feed(b"\n")
    assert lines.take() == {"id": 1}
