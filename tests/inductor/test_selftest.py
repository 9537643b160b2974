"""The self-test finds hooks that no longer bite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bisector.core.kinds import KINDS
from bisector.inductor import control
from bisector.inductor.control import Control

pytestmark = pytest.mark.usefixtures("compiler")


def test_every_hook_bites_in_this_torch() -> None:
    from bisector.inductor.hooks import selftest

    within = [kind.name for kind in KINDS.values() if kind.self_tested and not kind.rungs]
    assert selftest.run() == dict.fromkeys(within)
    assert control.current() is None


def test_every_hook_of_what_is_decided_outside_of_a_graph_bites_in_this_torch() -> None:
    from bisector.inductor.hooks import selftest

    outside = [kind.name for kind in KINDS.values() if kind.rungs]
    assert selftest.run_on_scripts() == dict.fromkeys(outside)
    assert control.current() is None


def test_a_hook_outside_of_a_graph_that_is_asked_in_vain_or_crashes_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from bisector.inductor.hooks import cache, frame, selftest

    def in_vain(control: Control, *told: Any) -> bool:
        ask(control, *told)
        return True

    def crash(*told: Any) -> None:
        raise RuntimeError("torch renamed it")

    ask: Callable[..., bool] = Control.ask
    monkeypatch.setattr(Control, "ask", in_vain)
    monkeypatch.setattr(frame, "_decision", crash)
    found = selftest.run_on_scripts()
    assert found[cache.KIND.name] == "denying it changes nothing"
    assert "torch renamed it" in (found[frame.KIND.name] or "")


def test_a_hook_that_is_asked_in_vain_or_crashes_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from bisector.inductor.hooks import inline, selftest, vec

    def always(control: Control, node: Any) -> bool:
        inline_ask(control, node)
        return True

    def crash(name: str, operands: list[str]) -> str:
        raise RuntimeError("torch renamed it")

    inline_ask: Callable[[Control, Any], bool] = inline._allowed
    monkeypatch.setattr(inline, "_allowed", always)
    monkeypatch.setattr(vec, "scalar_expression", crash)
    monkeypatch.setattr(control, "_disabled", {"fuse": "Scheduler has no can_fuse"})
    found = selftest.run()
    assert found["inline"] == "denying it changes nothing"
    assert found["vec"] is not None and "torch renamed it" in found["vec"]
    assert found["fuse"] == "Scheduler has no can_fuse"
    assert found["lower"] is None


def test_the_settings_that_a_kind_needs_are_those_that_the_subject_has_on() -> None:
    from bisector.inductor.hooks import selftest

    assert selftest.flags_on(lambda flag: flag == "freezing") == {"freezing"}


@pytest.mark.live  # all programs twice; the cheap part is above
def test_a_kind_that_needs_a_setting_is_tried_only_where_the_subject_has_it() -> None:
    from bisector.inductor.hooks import selftest

    assert selftest.run(()).keys() & {"prepack", "template"} == set()
    assert selftest.run({"freezing"}).keys() & {"prepack", "template"} == {"prepack"}


def test_a_kind_of_other_devices_is_not_here_and_not_off() -> None:
    from bisector.inductor import hooks

    elsewhere = {"split": "taken on cuda or xpu alone", "cudagraph": "taken on cuda alone"}
    assert hooks.not_here({"cpu"}) == elsewhere
    assert hooks.not_here({"cpu", "cuda"}) == {}
    assert not hooks.disabled().keys() & hooks.not_here({"cpu"}).keys()


def test_a_hook_that_changes_what_it_only_lists_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from bisector.inductor.hooks import selftest

    monkeypatch.setattr(Control, "take", lambda self, decision: decision.kind != "layout")
    found = selftest.run(())
    assert found["layout"] == "listing the decisions changes the generated source"
