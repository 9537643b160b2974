"""What the report says of each reason of a verdict."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from dataclasses import fields

import pytest

from bisector.core import probe_reasons as probe
from bisector.core import reasons as why
from bisector.core import script_reasons as script
from bisector.core import value_reasons as values
from bisector.core.endings import Ending, Unproved
from bisector.core.leaning import Leaning
from bisector.core.notes import CallName
from bisector.core.outcome import Outcome
from bisector.core.program import EffectKind
from bisector.core.reasons import Message, Reason
from bisector.core.value_reasons import CastLeftOut, Errors, Growth, ShownBy
from bisector.report.reasons import words

MODULES = (why.__name__, probe.__name__, values.__name__, script.__name__)
OFF = Message("0.5 off")
UNSTEADY = script.TwoRunsDiffer(Message("call 1"))
BEYOND = probe.BeyondTolerance(0.12345678, (1e-5, 0.0))
EAGER = "eager differs from eager on the same inputs and the same random state"
NARROWED = "a cast to a narrower dtype, which the program wrote, is not executed"
FEW = values.ElementsDiffer("output[0]", 3, 64)
ERRORS = Errors(0.5, 1e-9)


def leaves(does: EffectKind, *names: str) -> script.CallLeaves:
    return script.CallLeaves(CallName(2, "f"), does, names)


# With a reason for every way in which a kind of it is said; those without fields are in tables.
SAID: list[tuple[Reason, str]] = [
    (Message("as {it} was"), "as {it} was"),
    (why.Together((OFF, why.AllAgree())), "0.5 off; every output agrees within tolerance"),
    (why.OfOutput("output[0]", OFF), "output[0]: 0.5 off"),
    (
        why.DrawsBeyond("output[0]", 36),
        "output[0]: 36 elements that compiled draws lie beyond all that eager draws",
    ),
    (probe.RaisesOtherwise(None, "A: b"), "compiled raises A: b; eager returns"),
    (probe.RaisesOtherwise("A: b", None), "eager raises A: b; compiled returns"),
    (probe.RaisesOtherwise("A: b", "C: d"), "compiled raises C: d; eager raises A: b"),
    (probe.OtherShape((2,), ()), "shape (2,) instead of ()"),
    (probe.OtherDtype("float32", "int8"), "dtype float32 instead of int8"),
    (probe.OtherStrides((4,), (1,)), "strides (4,) instead of (1,)"),
    (probe.FiniteOnOneSide(2, 64), "2 of 64 elements are inf or nan on one side only"),
    (BEYOND, "largest difference 0.123457 (rtol 1e-05, atol 0)"),
    (probe.BeyondUlp(9, 4), "largest difference 9 ulp (at most 4 ulp)"),
    (probe.BelowCosine(0.5, 0.999), "cosine 0.5 (a cosine of at least 0.999)"),
    (
        probe.ValuesDiffer(BEYOND, 3, 64),
        "largest difference 0.123457 (rtol 1e-05, atol 0), 3 of 64 elements not bit-equal",
    ),
    (probe.OtherZeros(3, 64), "3 zeros of 64 have the other sign"),
    (probe.BothRaise("A: b"), "both raise A: b"),
    (probe.TrialsDisagree((Outcome.FAIL, Outcome.PASS, Outcome.FAIL)), "3 trials disagree: 1 PASS, 2 FAIL"),
    (probe.Raises(True, "A: b"), "eager raises A: b"),
    (probe.Raises(False, "A: b"), "compiled raises A: b"),
    (probe.AnotherSignature(OFF), "another signature: 0.5 off"),
    (probe.NotTaken("fuse:a@b", 0), "fuse:a@b was not taken in this compile, so denying it proves nothing"),
    (
        probe.NotTaken("fuse:a@b", 2),
        "fuse:a@b and 2 more were not taken in this compile, so denying it proves nothing",
    ),
    (script.AtCall(CallName(2, "f"), 3, OFF), "call 2 of 3 (`f`): 0.5 off"),
    (script.AndMore(OFF, 1), "0.5 off (and 1 more output)"),
    (script.AndMore(OFF, 2), "0.5 off (and 2 more outputs)"),
    (script.ComparisonFails(1, 2), "its comparison 1 of 2, which fails compiled alone"),
    (script.OtherEnd("A: b", "exit status 0"), "its end: A: b; with compilation off exit status 0"),
    (script.AmongLines(OFF), "0.5 off, among lines that come and go"),
    (
        script.NotSeenAgain("was stopped"),
        "what it prints differs; run again, to see whether that moves, the script was stopped",
    ),
    (
        script.MadeByValuesUnknown(OFF),
        "whether the values of its calls make that is not known: 0.5 off",
    ),
    (script.EndNotMet("was stopped"), "where each call gives what it gave compiled the script was stopped"),
    (script.CannotStand(2), "what call 2 gave compiled cannot stand in the place of eager's"),
    (why.ShapeMoves(2), "one ulp at each node changes that of eager's own output by 2 elements"),
    (why.EagerDiffersAt("empty", "new memory"), f"{EAGER}: `empty` is new memory"),
    (
        why.RunsDiffer(64, 63, 1),
        "the compiled program differs from itself on the same inputs: of 64 runs 63 gave other bits than the "
        "first, and 1 agree with eager",
    ),
    (
        why.WrongInEveryRun(OFF, 64, 63),
        "0.5 off; its runs differ from each other too (of 64 runs 63 gave other bits than the first), and "
        "none agrees with eager",
    ),
    (
        values.FromUndefined("cast", "a cast of NaN"),
        "all elements that differ depend on `cast`, which is a cast of NaN: torch leaves that undefined",
    ),
    (
        values.UndefinedNode("cast", "aten.to", "a cast of NaN"),
        "`cast` (aten.to) is a cast of NaN, which torch leaves undefined",
    ),
    (
        values.NodeDiffers("sin", "aten.sin", 1234.5, 0.5),
        "on equal inputs `sin` (aten.sin) differs from eager by 1.23e+03 ulp, of which eager's own rounding "
        "is 0.5",
    ),
    (
        values.NodeDiffers("sin", "aten.sin", math.inf, None),
        "on equal inputs `sin` (aten.sin) differs from eager by more than any rounding",
    ),
    (CastLeftOut(ShownBy.EXECUTED), f"{NARROWED}; where it is, this output agrees"),
    (CastLeftOut(ShownBy.LEFT_OUT), f"{NARROWED}; this output is that of eager without it"),
    (
        values.ErrorsByCasts("output[0]", CastLeftOut(ShownBy.ROUNDING_LEFT), ERRORS, Errors(1.0, 2.0)),
        f"output[0]: {NARROWED}; where it is, no more is left than rounding at each node makes (rms error "
        "with the casts 0.5, eager 1e-09; without any 1, eager 2)",
    ),
    (
        values.CastExplainsPart(0.25),
        f"{NARROWED}; where it is, this output still differs, by up to 0.25, which one ulp at each node may "
        "make: whether rounding is all of it is not known",
    ),
    (
        values.CastExplainsPart(None),
        f"{NARROWED}; where it is, this output still differs, which one ulp at each node may make: whether "
        "rounding is all of it is not known",
    ),
    (FEW, "output[0]: 3 of 64 elements differ"),
    *(
        (
            values.NoRoundingExplains(FEW, "int64", unmoved),
            f"output[0]: 3 of 64 elements differ; int64 has no rounding, and none before it explains {which}",
        )
        for unmoved, which in ((None, "them"), (3, "them"), (2, "2 of them"))
    ),
    (
        values.RoundingFallsShort(FEW, "int64", 2),
        "output[0]: 3 of 64 elements differ; int64 has no rounding, and the rounding before it, which moves "
        "this output in eager too, does not come as far at 2 of them",
    ),
    (
        values.NearerTo("output[0]", Leaning.WORSE, ERRORS),
        "output[0]: compiled is farther from the float64 reference (rms error 0.5, eager 1e-09)",
    ),
    (
        values.NearerTo("output[0]", Leaning.ALIKE, ERRORS),
        "output[0]: compiled is about as far as eager from the float64 reference (rms error 0.5, eager "
        "1e-09)",
    ),
    (
        values.NearerOnOthers("output[0]", Leaning.BETTER, 24, ERRORS),
        "output[0]: compiled is closer to the float64 reference over 24 other inputs (rms error 0.5, eager "
        "1e-09); which of the two is nearer on these is chance",
    ),
    (
        values.NotFinite("output[0]", Leaning.WORSE, 4, 0),
        "output[0]: compiled is farther from the float64 reference: 4 elements are not finite where it is "
        "(eager: 0)",
    ),
    *(
        (
            values.NearerUnclear("output[0]", 3, few, ERRORS),
            f"output[0]: 3 elements differ, {doubt} which run is nearer to the float64 reference (rms error "
            "0.5, eager 1e-09)",
        )
        for few, doubt in ((True, "too few to tell"), (False, "and it is not clear"))
    ),
    (
        values.BeyondNudges("output[0]", 0.5, 1e-6),
        "output[0]: off by up to 0.5, where one ulp at each operation moves eager by 1e-06: more than "
        "rounding explains",
    ),
    (values.AtAStep("output[0]"), "output[0] comes from rounded values that lie at a step"),
    (
        values.RoundingGrows(9.0, None),
        "at each node by itself the two runs differ by rounding alone (at most 9 ulp), which grows from node "
        "to node",
    ),
    *(
        (
            values.RoundingGrows(9.0, Growth("ceil", "aten.ceil", gain)),
            "at each node by itself the two runs differ by rounding alone (at most 9 ulp); it grows most at "
            f"`ceil` (aten.ceil), {how}",
        )
        for gain, how in ((3e5, "3e+05 times"), (math.inf, "without bound"))
    ),
    (
        values.EagerMoves("output[0]", 3, 64, 0.25),
        "one ulp at each node moves output[0] of eager itself beyond tolerance (3 of 64 elements, up to "
        "0.25)",
    ),
    (script.DivergesAt(Message("call 1 of 3")), "the script diverges at call 1 of 3"),
    (script.CannotTell(OFF), "cannot tell: 0.5 off"),
    (
        script.NotKnownSteady(script.DivergesAt(Message("its end")), script.NoSecondRun()),
        "the script diverges at its end; whether that is steady is not known: no second run was made",
    ),
    (UNSTEADY, "two runs of the script with compilation off differ (call 1)"),
    (script.NotByUnsteadiness(OFF, UNSTEADY), f"0.5 off; {words(UNSTEADY)}, which does not explain it"),
    (script.SteadyBesides(OFF, UNSTEADY), f"0.5 off; but {words(UNSTEADY)}"),
    (
        script.ScriptDrawsOthers(("a", "b")),
        "compiled draws from another random stream than eager; where it draws from eager's (a and b) the "
        "script agrees",
    ),
    (script.CallGivesNothing("a crash"), "the call by itself gives no values (a crash)"),
    (script.SaysAlike("FAIL"), "the script prints `FAIL` with compilation off too"),
    (script.PlaceDiffers("call[0]"), "call[0] differs compiled, and not from run to run"),
    (script.LineDiffers(Message("it prints `1`")), "it prints `1`, in both runs"),
    (
        script.LaterCallsUnseen(3),
        "3 later calls of the same graphs were not looked at; all calls are compared where the script is run "
        "without further options",
    ),
    (script.CutShort("killed"), "while its calls were recorded the script was killed"),
    (script.UnseenAt(CallName(1, "f"), OFF), "at call 1 (`f`) 0.5 off"),
    (
        script.UnlikeAgain(CallName(1, "f")),
        "call 1 (`f`) gives something else in eager when it is run again",
    ),
    *(
        (
            script.OneSided(12, "output[0]", larger),
            f"in 12 calls output[0] is {side} than eager's on equal inputs: rounding goes to both sides",
        )
        for larger, side in ((True, "larger"), (False, "smaller"))
    ),
    (script.ComparisonsFail(1), "the script's own comparison fails with compilation off too"),
    (script.ComparisonsFail(3), "the script's own 3 comparisons fail with compilation off too"),
    (
        script.EndsAlike("AssertionError: no"),
        "the script ends with compilation off too: AssertionError: no",
    ),
    (script.StatusAlike(2), "the script ends with status 2 with compilation off too"),
    (
        leaves(EffectKind.MUTATES, "a", "b", "c", "d"),
        "call 2 (`f`) changes a and b and c and 1 more in place",
    ),
    (leaves(EffectKind.CHANGES_STATE, "a", "b"), "call 2 (`f`) changes a and b"),
    (
        leaves(EffectKind.MAKES_LAZY),
        "call 2 (`f`) makes the parameters of a lazy module, which are drawn then",
    ),
    (
        script.PassesPutBack(leaves(EffectKind.DRAWS)),
        "call 2 (`f`) draws random numbers: where that is put back before each call it passes; seed before "
        "each side, or call `eval()`",
    ),
    (script.SidesDiffer(()), "what makes its two sides differ was not found"),
    (
        script.SidesDiffer((leaves(EffectKind.CHANGES_STATE, "a"), leaves(EffectKind.DRAWS))),
        "what makes its two sides differ was not found (call 2 (`f`) changes a, and call 2 (`f`) draws "
        "random numbers, which does not explain it)",
    ),
    (script.RightUnknown(OFF, UNSTEADY), f"0.5 off; which is right is not known: {words(UNSTEADY)}"),
    (script.OnEqualInputs(None, OFF), "on equal inputs there: 0.5 off"),
    (script.OnEqualInputs(CallName(2, "f"), OFF), "on equal inputs at call 2 (`f`): 0.5 off"),
    (
        script.GivenOtherwise(CallName(2, "f"), "argument[0]"),
        "each call up to this one agrees on equal inputs, and call 2 (`f`) is given another argument[0] than "
        "compiled where each call before gives what it gave compiled: the difference does not come through "
        "what the calls give, but through what else they do, such as a side effect that is lost",
    ),
]


@pytest.mark.parametrize(("reason", "said"), SAID, ids=[type(reason).__name__ for reason, _ in SAID])
def test_each_reason_is_said_so(reason: Reason, said: str) -> None:
    assert words(reason) == said


def kinds(of: type[Reason] = Reason) -> Iterator[type[Reason]]:
    for kind in of.__subclasses__():
        if kind in (Ending, Unproved):  # test_endings.py has these
            continue
        if kind not in (probe.Measured, values.OfValues):
            yield kind
        yield from kinds(kind)


BARE = [kind for kind in kinds() if not fields(kind)]


@pytest.mark.parametrize("kind", BARE)
def test_a_reason_without_fields_has_words(kind: type[Reason]) -> None:
    said = words(kind())
    assert said and "\n" not in said and not said.endswith(".")


@pytest.mark.parametrize("kind", [*kinds()])
def test_no_reason_is_without_words(kind: type[Reason]) -> None:
    assert inspect.getdoc(kind) and kind.__module__ in MODULES
    assert kind in {*BARE, *(type(reason) for reason, _ in SAID)}


def test_no_two_reasons_without_fields_say_the_same() -> None:
    assert len({words(kind()) for kind in BARE}) == len(BARE)


@pytest.mark.parametrize("how", Leaning)
def test_each_leaning_is_said(how: Leaning) -> None:
    assert "float64 reference" in words(values.NearerTo("output[0]", how, ERRORS))
