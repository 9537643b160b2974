"""Frames of the compiler are no words of the script's."""

from __future__ import annotations

from dataclasses import replace

from bisector.core.printed import compare_lines
from bisector.core.program import PlainRun, with_events, without_frames

TRACEBACK = """\
ERROR skipping a batch
Traceback (most recent call last):
  File "train.py", line 20, in <module>
    step(x, w)
    ~~~~^^^^^^
{of_the_compiler}  File "train.py", line 10, in forward
    raise ValueError("a batch of width 7")
ValueError: a batch of width 7
"""
WRAPPER = """\
  File "/env/torch/_dynamo/eval_frame.py", line 1166, in compile_wrapper
    return fn(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^
"""
WATCHING = """\
  File "/src/bisector/inductor/program/watch.py", line 163, in call
    result = function(*args, **kwargs)
"""


def said(text: str) -> PlainRun:
    return with_events(PlainRun(status=0), (), ({"said": text},))


def test_a_traceback_is_the_same_whatever_its_calls_go_through() -> None:
    plain = said(TRACEBACK.format(of_the_compiler=""))
    for frames in (WRAPPER, WATCHING, WATCHING + WRAPPER):
        assert not compare_lines(plain, said(TRACEBACK.format(of_the_compiler=frames)))
    assert plain.said == tuple(TRACEBACK.format(of_the_compiler="").splitlines())


def test_a_warning_says_the_same_wherever_it_is_ascribed_to() -> None:
    places = "/env/torch/_dynamo/eval_frame.py:1166", "/src/bisector/inductor/program/watch.py:163"
    warnings = [said(f"{place}: UserWarning: few\n  return fn(*args)\nnext\n") for place in places]
    assert warnings[0].said == warnings[1].said == ("UserWarning: few", "next")
    own = ["train.py:13: UserWarning: few", "  out = compiled(x)", "", "/torch/_dynamo/x: no place"]
    assert without_frames(own) == own


def test_a_function_that_a_graph_break_splits_keeps_its_name() -> None:
    run = PlainRun(status=0, printed=("step loss 1.0",))
    resumed = "torch_dynamo_resume_in_step_at_11 loss 1.0"
    assert not compare_lines(run, replace(run, printed=(resumed,)))
    assert compare_lines(run, replace(run, printed=(resumed.replace("step", "stop"),)))
