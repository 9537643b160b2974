"""Control answers for decisions without knowing the compiler."""

from __future__ import annotations

import pytest

from bisector.core.decision import DecisionId
from bisector.core.model import Base, Candidate
from bisector.inductor import control
from bisector.inductor.control import Control


def test_over_the_default_compile_only_members_are_denied() -> None:
    asked = Control(Base.DEFAULT, ["fma:sub@mul"])
    assert not asked.ask("fma", "sub", "mul")
    assert asked.ask("fma", "add", "mul")


def test_over_the_plain_baseline_only_members_and_lowerings_are_allowed() -> None:
    asked = Control(Base.PLAIN, ["fma:sub@mul"])
    assert asked.ask("fma", "sub", "mul")
    assert not asked.ask("fma", "add", "mul")
    assert asked.ask("lower", "aten.mul", "mul")


def test_over_the_plain_baseline_a_lowering_that_is_a_member_is_denied() -> None:
    asked = Control(Base.PLAIN, ["lower:aten.sum@total", "vec:loop@total"])
    assert not asked.ask("lower", "aten.sum", "total")
    assert asked.ask("lower", "aten.mul", "mul")
    assert asked.ask("vec", "loop", "total")
    assert asked.denied(DecisionId("lower:aten.sum@total"))


def test_a_decision_is_recorded_once_in_order_with_its_first_text() -> None:
    asked = Control()
    asked.ask("vec", "erf", "b", "first", "file.py:1")
    asked.ask("vec", "erf", "a")
    asked.ask("vec", "erf", "b", "second")
    assert [(d.id, d.text, d.where) for d in asked.decisions()] == [
        ("vec:erf@b", "first", "file.py:1"),
        ("vec:erf@a", "", ""),
    ]


def test_an_answer_without_a_record_is_no_decision() -> None:
    asked = Control(Base.DEFAULT, ["fuse:b@a"])
    assert not asked.allows(DecisionId("fuse:b@a"))
    assert asked.decisions() == ()
    assert asked.vanished() == ("fuse:b@a",)


def test_members_never_asked_about_have_vanished() -> None:
    asked = Control(Base.DEFAULT, ["cast:float16@b", "cast:float16@a", "fma:sub@mul"])
    asked.ask("fma", "sub", "mul")
    assert asked.vanished() == ("cast:float16@a", "cast:float16@b")


def test_only_what_was_asked_and_refused_counts_as_denied() -> None:
    asked = Control(Base.DEFAULT, ["decomp:aten.std@std"])
    assert not asked.denied(DecisionId("decomp:aten.std@std"))
    asked.ask("decomp", "aten.std", "std")
    assert asked.denied(DecisionId("decomp:aten.std@std"))


def test_a_candidate_gives_its_base_and_members() -> None:
    asked = Control.of(Candidate(Base.PLAIN, frozenset({"fma:sub@mul"})))
    assert (asked.base, asked.members) == (Base.PLAIN, {"fma:sub@mul"})


def test_a_control_is_current_inside_its_block_alone() -> None:
    asked = Control()
    with control.activate(asked):
        assert control.current("fma") is asked
    assert control.current("fma") is None


def test_a_second_control_inside_a_block_is_an_error() -> None:
    with (
        control.activate(Control()),
        pytest.raises(RuntimeError, match="active already"),
        control.activate(Control()),
    ):
        pass


def test_a_kind_that_is_switched_off_has_no_control(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_disabled", {})
    control.disable("fma", "torch changed")
    with control.activate(Control()):
        assert control.current("fma") is None
        assert control.current("vec") is not None
    assert control.disabled() == {"fma": "torch changed"}
