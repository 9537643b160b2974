"""The walk over flags against a subject whose answer is one line: which flags repair, alone or together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from bisector.core.case import WHOLE
from bisector.core.flags import Flag, FlagWalk
from bisector.core.model import Measurement
from bisector.core.protocol import DigestCode, GeneratedCode, RunProbe, Setting
from bisector.explain.fixes import from_flags
from bisector.explain.flags.walk import walk
from tests.explain.fake_lab import DIVERGES, FakeLab, bytes_that_differ

Flags = frozenset[str]
FLAGS = [
    Flag(f"inductor.f{i}", "family", 1, "does something", "graph", "2.1", "#1", (f"kind{i}",))
    for i in range(6)
]
CURRENT = {flag.name: Setting(0) for flag in FLAGS}


class Lab(FakeLab):
    """differing: how many elements of the output differ under these flags. acting: flags in the program.

    tried: what was run; codes: False where the program cannot be told without a run; with_values: a flag is
    `NAME=VALUE` here; unread: flags that no compile reads; compiled: of what the code was asked.
    """

    def __init__(
        self,
        differing: Callable[[Flags], int],
        acting: Flags,
        codes: bool = True,
        with_values: bool = False,
        unread: Flags = frozenset(),
    ) -> None:
        super().__init__({
            RunProbe: lambda request: self.answer(self.named(request.candidate.flags)),
            DigestCode: lambda request: self.code(self.named(request.candidate.flags)),
        })  # fmt: skip
        self.differing, self.acting, self.codes = differing, acting, codes
        self.with_values, self.unread = with_values, unread
        self.tried: list[Flags] = []
        self.compiled: list[Flags] = []

    def named(self, flags: Sequence[tuple[str, Any]]) -> Flags:
        return frozenset(f"{name}={value}" if self.with_values else name for name, value in flags)

    def code(self, flags: Flags) -> GeneratedCode:
        self.compiled.append(flags)
        return GeneratedCode(self.program(flags) if self.codes else None, self.unread)

    def program(self, flags: Flags) -> str:
        return "+".join(["plain", *sorted(f for f in flags if f.partition("=")[0] in self.acting)])

    def answer(self, flags: Flags) -> Measurement:
        if flags not in self.tried:
            self.tried.append(flags)
        return bytes_that_differ(self.differing(flags), self.program(flags))


def walked(lab: Lab, flags: Sequence[Flag] = FLAGS) -> FlagWalk:
    return walk(lab.study(DIVERGES), list(flags), CURRENT, WHOLE, lab.answer(frozenset()))


def named(*numbers: int) -> Flags:
    return frozenset(f"inductor.f{i}" for i in numbers)


def test_a_flag_that_repairs_alone_is_a_fix_and_its_kinds_are_suspected() -> None:
    found = walked(Lab(lambda flags: 0 if named(2) <= flags else 3, named(1, 2)))
    assert [t.flag.name for t in found.fixes] == ["inductor.f2"]
    assert found.suspected == {"kind2"}
    assert found.sets == ()


def test_two_flags_that_each_move_the_divergence_are_tried_together_before_all_that_act() -> None:
    lab = Lab(lambda flags: 2 - len(flags & named(1, 4)), named(0, 1, 2, 3, 4))
    found = walked(lab)
    assert [frozenset(s) for s in found.sets] == [named(1, 4)]
    assert found.suspected == {"kind1", "kind4"}
    # The default, the five that act alone, and the pair: that each alone does not repair was seen before.
    assert lab.tried[6:] == [named(1, 4)]


def test_flags_that_show_nothing_alone_are_found_among_all_that_act() -> None:
    lab = Lab(lambda flags: 0 if named(0, 3) <= flags else 2, named(0, 2, 3))
    assert [frozenset(s) for s in walked(lab).sets] == [named(0, 3)]


def test_where_nothing_repairs_every_flag_that_acts_is_tried_at_its_other_values() -> None:
    lab = Lab(lambda flags: 0 if "inductor.f1=4" in flags else 3, named(1, 2))
    lab.with_values = True
    found = walked(lab, [replace(flag, values=(1, 4, 0)) for flag in FLAGS])
    assert {(t.flag.name, t.value): t.role for t in found.milder} == {
        ("inductor.f1", 4): "fix",
        ("inductor.f2", 4): "no effect",
    }
    assert found.fixes == []
    assert [fix.values for fix in from_flags(found)] == [{"inductor.f1": 4}]


def test_a_flag_that_the_default_compile_does_not_read_is_not_even_compiled() -> None:
    lab = Lab(lambda flags: 0 if named(2) <= flags else 3, named(1, 2))
    lab.unread = named(0, 4)
    trials = {t.flag.name: t for t in walked(lab).trials}
    assert lab.compiled == [frozenset(), named(1), named(2), named(3), named(5)]
    assert trials["inductor.f0"].told_by == "code"


def test_a_flag_that_repairs_is_tried_at_its_other_values_too() -> None:
    lab = Lab(lambda flags: 0 if flags & {"inductor.f2=1", "inductor.f2=4"} else 3, named(1, 2))
    lab.with_values = True
    flags = [replace(flag, values=(1, 4, 8, 0)) for flag in FLAGS]
    found = walked(lab, flags)
    milder = {(t.flag.name, t.value): t.role for t in found.milder}
    assert milder == {("inductor.f2", 4): "fix", ("inductor.f2", 8): "no effect"}
    assert [t.value for t in found.fixes] == [1]
    assert [fix.values for fix in from_flags(found)] == [{"inductor.f2": 1}, {"inductor.f2": 4}]


def test_of_values_on_a_command_line_that_compute_the_same_one_is_a_fix() -> None:
    lab = Lab(lambda flags: 0 if "inductor.f2=1" in flags or "inductor.f2=4" in flags else 3, named(1))
    lab.with_values = True
    flags = [replace(flag, values=(1, 4), outside_code=flag.name == "inductor.f2") for flag in FLAGS]
    found = walked(lab, flags)
    assert [(t.value, t.role) for t in found.milder] == [(4, "fix")]
    assert [fix.values for fix in from_flags(found)] == [{"inductor.f2": 1}]


def test_a_flag_that_makes_more_elements_differ_says_how_many_times_as_many() -> None:
    trials = walked(Lab(lambda flags: 6 if flags else 3, named(1))).trials
    assert [t.grown for t in trials] == [1.0, 2.0, 1.0, 1.0, 1.0, 1.0]


def test_a_flag_that_acts_outside_the_code_is_run_whatever_the_code_is() -> None:
    lab = Lab(lambda flags: 0 if named(0, 3) <= flags else 3 - len(flags & named(0, 3)), named(0, 2))
    flags = [replace(flag, outside_code=flag.name == "inductor.f3") for flag in FLAGS]
    assert [frozenset(s) for s in walked(lab, flags).sets] == [named(0, 3)]


def test_a_flag_that_leaves_the_code_as_it_is_is_not_run_and_told_so() -> None:
    lab = Lab(lambda flags: 0 if named(2) <= flags else 3, named(1, 2))
    trials = {t.flag.name: t for t in walked(lab).trials}
    assert lab.tried == [frozenset(), named(1), named(2)]
    assert trials["inductor.f0"].told_by == "code"
    assert (trials["inductor.f0"].role, trials["inductor.f0"].removed_fraction) == ("no effect", 0.0)
    assert trials["inductor.f1"].told_by == "run"


def test_flags_of_one_program_are_run_once() -> None:
    lab = Lab(lambda flags: 0 if flags & named(2, 4) else 3, named(2, 4))
    lab.program = lambda flags: "both alike" if flags & named(2, 4) else ""  # type: ignore[method-assign]
    found = walked(lab)
    assert lab.tried == [frozenset(), named(2)]
    assert [t.flag.name for t in found.fixes] == ["inductor.f2", "inductor.f4"]


def test_where_the_code_cannot_be_told_every_flag_is_run() -> None:
    lab = Lab(lambda flags: 3, named(1), codes=False)
    walked(lab)
    assert lab.tried[:7] == [frozenset(), *(named(i) for i in range(6))]


def test_where_all_flags_together_do_not_repair_no_set_is_claimed() -> None:
    found = walked(Lab(lambda flags: 1, named(0, 1)))
    assert (found.fixes, found.sets, found.suspected) == ([], (), frozenset())


def test_a_flag_that_is_conservative_already_or_unknown_to_torch_is_not_tried() -> None:
    lab = Lab(lambda flags: 1, named())
    settings = {"inductor.f0": Setting(1)}
    found = walk(lab.study(), FLAGS[:2], settings, WHOLE, lab.answer(frozenset()))
    assert (found.trials, found.conservative) == ((), {})
