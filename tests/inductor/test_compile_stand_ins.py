"""The functions by which a program compiles, replaced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import pytest

torch = pytest.importorskip("torch")

from bisector.inductor.capture.compile_stand_ins import (  # noqa: E402
    StandIn,
    of_compile,
    of_compile_fx,
    of_optimize,
    outermost,
)


@contextmanager
def replaced(*stand_ins: StandIn) -> Iterator[None]:
    torch._dynamo.reset()
    with ExitStack() as stack:
        for one in stand_ins:
            stack.enter_context(mock.patch.object(*one))
        yield


def f(x: Any) -> Any:
    return x + 1


def through(names: list[str], name: str) -> Any:
    """Notes that it was asked, and compiles as torch does."""

    def compiled(original: Any, model: Any, given: dict[str, Any]) -> Any:
        names.append(name)
        return original(model, **given)

    return compiled


def eager(original: Any, gm: Any, inputs: Any, given: Any) -> Any:
    return gm


FORMS = {
    "a call": lambda: torch.compile(f, backend="eager"),
    "a decorator": lambda: torch.compile(backend="eager")(f),
    "by name": lambda: torch.compile(model=f, backend="eager"),
    "of Dynamo": lambda: torch._dynamo.optimize("eager")(f),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_compiling_is_told_once(form: str) -> None:
    names: list[str] = []
    with replaced(of_compile(through(names, "compile")), of_optimize(through(names, "optimize"))):
        assert torch.equal(FORMS[form]()(torch.ones(2)), torch.full((2,), 2.0))
    assert names == ["optimize" if form == "of Dynamo" else "compile"]


def test_two_that_look_at_a_compile_are_both_told_and_the_later_one_first() -> None:
    told: list[str] = []

    def looked_at(name: str) -> Any:
        def lowered(original: Any, gm: Any, inputs: Any, given: Any) -> Any:
            told.append(name)
            return eager(original, gm, inputs, given) if name == "first" else original(gm, inputs, **given)

        return lowered

    with replaced(of_compile_fx(outermost(looked_at("first")))), replaced(
        of_compile_fx(outermost(looked_at("second")))
    ):
        torch.compile(f)(torch.ones(2))
    assert told == ["second", "first"]


def test_what_compile_fx_calls_of_itself_is_a_part_of_the_first_call() -> None:
    told: list[dict[str, Any]] = []

    def lowered(original: Any, gm: Any, inputs: Any, given: Any) -> Any:
        told.append(dict(given))
        return original(gm, inputs, **given) if len(told) < 2 else gm

    options = {"max_fusion_size": 3}
    with replaced(of_compile_fx(lowered)):
        torch.compile(f, options=options)(torch.ones(2))
    assert [one.get("config_patches") for one in told] == [options, None]
    told.clear()
    with replaced(of_compile_fx(eager)), replaced(of_compile_fx(outermost(lowered))):
        torch.compile(f, options=options)(torch.ones(2))
    assert len(told) == 1
