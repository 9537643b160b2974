"""What is said of each step that a run tells while it is at work."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

from bisector.core import progress as steps
from bisector.core.case import WHOLE, Case
from bisector.core.evidence import Evidence
from bisector.core.model import Base, Candidate, Measurement
from bisector.core.outcome import Outcome
from bisector.core.progress import Step
from bisector.core.protocol import About, Failed, RunProbe, RunVerdict
from bisector.core.reasons import Message
from bisector.core.verdict import VerdictClass, decided
from bisector.report.progress import words

PLAIN = Candidate(base=Base.PLAIN, members=frozenset({"fma:add@graph", "fma:mul@graph"}))
FLAGS = Candidate.with_flags({"inductor.x": 1})
FMA = ("fma:mul@graph",)
SMALLER = Case(outputs=("mul",))


def about(case: Case) -> About:
    return About(0, case, None, {})


# With a step for every way in which a kind of it is said; those without fields are in a table.
SAID: list[tuple[Step, str]] = [
    (steps.Running("case.py"), "running case.py"),
    (steps.AgainWith(["A", "B"]), "again with A, B, which the script sets before it imports torch"),
    (steps.AgainDrawingAlike(False), "again with fallback_random=True, under which it diverges too"),
    (steps.AgainDrawingAlike(True), "again with fallback_random=True, under which the script does not agree"),
    (
        steps.OtherSeeds((1, 2)),
        "they agree; the script sets no seed, and is run with seeds 1 and 2 too",
    ),
    (steps.Judged(decided(VerdictClass.UNRESOLVED, Message("why"))), "unresolved: why"),
    (
        steps.Probed(RunProbe(about(WHOLE), FLAGS), Measurement(seconds=1.234)),
        "inductor.x=1, on the whole: 1.23 s",
    ),
    (
        steps.Probed(RunProbe(about(SMALLER), PLAIN), Failed("a crash")),
        "allow fma:add@graph and 1 more, on a smaller case: a crash",
    ),
    (
        steps.Probed(
            RunVerdict(about(WHOLE)), Evidence(Measurement(error="it raises"), None, None, None, ())
        ),
        "on the whole: it raises",
    ),
    (steps.FirstBadBackend("inductor"), "first diverging backend: inductor"),
    (steps.OperationsDiffer(2), "no single node carries it; 2 sorts of operations differ"),
    (steps.RegionDiverges(3, 9), "a region of 3 of 9 calls diverges alike"),
    (steps.Begins("mul", None), "starts at mul"),
    (steps.Begins("mul", "floor"), "starts at mul, grows most at floor"),
    (steps.FlagsTried(()), "repair it: none so far"),
    (steps.FlagsTried(("a", "b")), "repair it: a, b"),
    (steps.OneRepair(FMA), "disabling fma:mul@graph repairs it"),
    (steps.FamilyCarries(12, None), "on the whole: 12 decisions together repair it"),
    (steps.FamilyCarries(12, 0.5), "on the whole: 12 decisions together remove 50% of it"),
    (steps.SetsFound(1, 2), "causes found: 1, repairs found: 2"),
    (
        steps.Confirmed((FMA,), (FMA, "abcde"), ({"x": True, "y": "a"},), None),
        'the cause is fma:mul@graph; without fma:mul@graph or a and 4 more it agrees; x = True, y = "a" '
        "repairs it",
    ),
    (steps.Confirmed((), (), (), Message("it agrees there")), "it agrees there"),
    (steps.Confirmed((), (), (), None), "nothing"),
    (steps.Smaller(2, 64), "2 calls on 64 elements still diverge"),
    (steps.ReproDiverges("repro.py", True), "repro.py diverges; --fixed agrees"),
    (steps.ReproDiverges("repro.py", False), "repro.py diverges; no fix that plain torch can express"),
    (steps.FailsAsTest("test_repro.py", "Differs: 0.5"), "test_repro.py fails: Differs: 0.5"),
    (steps.ScriptUnderFix("x = 1", None), "with x = 1 the script itself: agrees with eager"),
    (
        steps.ScriptUnderFix("x = 1", Message("call 1 differs")),
        "with x = 1 the script itself: call 1 differs",
    ),
    (steps.IndexRead("https://a", 7), "https://a has 7 versions for this Python"),
    (steps.BuildAsked("2.1", None, Outcome.PASS, "", None), "2.1 agrees"),
    (steps.BuildAsked("2.1", 40 * "a", Outcome.UNRESOLVED, "why", None), "2.1 (aaaaaaaaaa) cannot tell: why"),
    (steps.BuildAsked("2.1", None, Outcome.FAIL, "why", "2.0"), "2.1 diverges: the same commit as 2.0"),
    (steps.BuildAskedUnder("2.1", {"a": 1, "b": False}, Outcome.FAIL), "2.1 with a=1, b=False diverges"),
    (steps.LookedAt("case.py", "fma"), "case.py: fma"),
]


@pytest.mark.parametrize(("step", "said"), SAID, ids=[type(step).__name__ for step, _ in SAID])
def test_each_step_is_said_so(step: Step, said: str) -> None:
    assert words(step) == said


@pytest.mark.parametrize("kind", Step.__subclasses__())
def test_no_step_is_without_words(kind: type[Step]) -> None:
    assert inspect.getdoc(kind)
    assert words(kind()) if not fields(kind) else kind in {type(step) for step, _ in SAID}
