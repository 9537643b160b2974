"""What the report says of each kind of note."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields

import pytest

from bisector.core import notes as seen
from bisector.core import search_notes as searched
from bisector.core.contract import Breach
from bisector.core.endings import EndedByError
from bisector.core.notes import AlsoDiverges, CallName, Note, Relation
from bisector.core.outcome import Outcome
from bisector.core.reasons import Message
from bisector.core.search_notes import Dimension, ReproOf
from bisector.report.notes import words

SETS = (("a", "b"), ("c",), tuple("defgh"))


def other(cause: Relation, every: bool = False) -> Note:
    return seen.OtherCallDiverges(AlsoDiverges(3, "f", Message("0.5 off"), cause), every)


# With a note for every way in which a kind of it is said; those without fields are few words in a table.
SAID: list[tuple[Note, str]] = [
    (seen.Reported(Message("as {it} was")), "as {it} was"),
    (seen.NoReference("it draws"), "no float64 reference: it draws"),
    (
        seen.HeldAtItsSize("output[0]", 1.23456e-9),
        "output[0] is held to an absolute tolerance of 1.23e-09: the default absolute tolerance is larger "
        "than values of it that are off",
    ),
    (
        seen.SeveralTolerances("output[0]", ((1e-5, 0.0), (0.001, 1e-6))),
        "the script compares output[0] with several tolerances (rtol 1e-05 with atol 0, rtol 0.001 with atol "
        "1e-06); the repro holds it to the first of these",
    ),
    (
        seen.OneOfSeveralCalls(3, 3, CallName(1, "f"), None),
        "the script makes 3 calls of compiled graphs; this is call 1 (`f`)",
    ),
    (
        seen.OneOfSeveralCalls(9, 3, CallName(2, "f"), CallName(1, "g")),
        "the script makes 9 calls of compiled graphs, of which 3 were recorded; this is call 2 (`f`); the "
        "first that diverges, each on the inputs that it has in eager, is call 1 (`g`)",
    ),
    (other(Relation.SAME), "call 3 (`f`) diverges too: 0.5 off (of the same cause)"),
    (
        other(Relation.ANOTHER, every=True),
        "call 3 (`f`) diverges too: 0.5 off (of another cause; explained in call-3)",
    ),
    (
        other(Relation.UNKNOWN),
        "call 3 (`f`) diverges too: 0.5 off (not known whether of the same cause; `--call 3` explains it, "
        "`--all` each of them)",
    ),
    (seen.ScriptEnded("sys.exit(7)"), "while its calls were recorded the script ended: sys.exit(7)"),
    (seen.AgreesWithSeeds((1, 2)), "with seeds 1 and 2 it agrees too"),
    (seen.UnjudgedWithSeed(2), "with seed 2 it could not be told whether it agrees"),
    (
        seen.DivergesWithSomeSeeds(1, (0, 1, 2), 2),
        "the script sets no seed: it diverges with 1 of 3 seeds (0 to 2); this is seed 2",
    ),
    (seen.BackendUnjudged("eager"), "whether backend=eager shows it too could not be told"),
    (
        seen.VariationNotSought(EndedByError("no time")),
        "where the runs begin to differ was not looked for: no time",
    ),
    (seen.VariationUnknown("a crash"), "where the runs begin to differ is not known: a crash"),
    (
        seen.VariesFrom("add", "f.py:2"),
        "the runs of the compiled program begin to differ at `add` (f.py:2)",
    ),
    (seen.VariesFrom("add", ""), "the runs of the compiled program begin to differ at `add`"),
    (seen.AlikeWith("x", 1, Outcome.PASS), "with x = 1 all runs are alike, and agree with eager"),
    (
        seen.AlikeWith("x", True, Outcome.FAIL),
        "with x = True all runs are alike, and still differ from eager",
    ),
    (
        seen.AlikeWith("x", 1, Outcome.UNRESOLVED),
        "with x = 1 all runs are alike, and cannot be compared with eager",
    ),
    (seen.NothingMakesAlike(("x", "y")), "no setting that was tried makes the runs alike: x, y"),
    (
        seen.NotShownInFork(False, Message("alike")),
        "a run of the script in a fork of a warm process does not show it (alike)",
    ),
    (
        seen.NotShownInFork(True, Message("a crash")),
        "a run of the script in a fork of a warm process ends without values too, and no decision can be "
        "tried on it (a crash)",
    ),
    (seen.KnownCause("fma"), "The cause is known: fma. It was confirmed here by its own probes."),
    (seen.NoBuildAsked("there is no repro"), "no build was asked: there is no repro"),
    (searched.EndedAtCall(2, 3), "the search runs it up to call 2 of 3, the first that diverges"),
    (searched.GraphsCompiledAlone((2,), 3), "of its 3 graphs it diverges with g2 alone compiled"),
    (searched.GraphsCompiledAlone((0, 2), 3), "of its 3 graphs it diverges with g0 and g2 alone compiled"),
    (searched.CallsCompiledAlone((2,), 4), "of its 4 calls it diverges with call 2 alone compiled"),
    (
        searched.StatementsLeftOut(12, 30),
        "the repro runs 12 of its 30 lines of code: without the others it diverges alike",
    ),
    (searched.CallsCompiledAlone((2, 4), 4), "of its 4 calls it diverges with calls 2, 4 alone compiled"),
    (
        searched.SearchedInRegion(8, 900),
        "decisions and flags were searched in a region of 8 of 900 calls with the same mismatch; what "
        "repairs the region was then tried on the whole graph",
    ),
    (
        searched.SearchedOnPart(64, 10**6),
        "flags were tried on a part of the inputs with the same mismatch (64 of 1000000 elements); what "
        "repairs that part was then tried on the whole",
    ),
    (
        searched.SearchedAtOperation("aten.tanh"),
        "no single node carries the divergence; flags were tried on aten.tanh by itself, which differs in "
        "its bits alone, and what repairs that was then tried on the whole graph",
    ),
    (
        searched.Untraced(searched.NothingArises()),
        "the origin and the amplifier are not established: no node differs from eager on equal inputs",
    ),
    (
        searched.NotMaterialized(("mul", "add")),
        "not materialized by the compiled program: `mul`, `add`; an error there appears in what reads it",
    ),
    (
        searched.DeniedUnjudged(SETS),
        "a repair may be missing: what disabling a and b (and 2 more such sets) does could not be judged",
    ),
    (
        searched.DeniedUnexplained(SETS[1:2]),
        "a cause may be missing: disabling c breaks all that were found, and does not repair",
    ),
    (
        searched.RestUnjudged(SETS[2:]),
        "a repair may be missing: what disabling all but 5 decisions does could not be judged",
    ),
    (
        searched.DivergesBeforeInductor("aot_eager"),
        "aot_eager diverges already, and no decision that numbisect knows repairs it",
    ),
    (searched.NotConfirmed(EndedByError("a crash")), "not confirmed in a second process: a crash"),
    (seen.CommitUnknown(EndedByError("no time")), "the commit: no time"),
    (searched.SizeNotTried(100), "the inputs have 100 elements; a smaller size was not tried"),
    (
        searched.AllElementsNeeded(1056, (Dimension("x", 1, 32), Dimension("y", 0, 33))),
        "the inputs have 1056 elements: in all smaller cases that were tried, with less along dimension 1 of "
        "`x` (32), dimension 0 of `y` (33), compiled agrees with eager or differs in another way",
    ),
    (
        searched.SmallerCaseNotFollowed(("aten.mul", "aten.sub"), searched.NotRepairedAlike()),
        "a smaller case (aten.mul, aten.sub) was not followed: it diverges in the same way, but what repairs "
        "the target does not repair it",
    ),
    (searched.ReproNotWritten(ReproOf.GRAPH, "why"), "no repro of the graph alone could be written: why"),
    (
        searched.ReproAgrees(ReproOf.SCRIPT, "agrees"),
        "a repro that is the script itself does not diverge in plain Python (agrees)",
    ),
    (
        searched.FixFailsInRepro("x = 1"),
        "x = 1 does not repair the repro in a fresh process; it is not confirmed",
    ),
    (
        searched.NotFailingAsTest("AssertionError: why"),
        "the repro does not fail as a test in a fresh process (AssertionError: why)",
    ),
    (searched.NotFailingAsTest(""), "the repro does not fail as a test in a fresh process (it passes)"),
]


@pytest.mark.parametrize(("note", "said"), SAID, ids=[type(note).__name__ for note, _ in SAID])
def test_each_note_is_said_so(note: Note, said: str) -> None:
    assert words(note) == said


def kinds(of: type[Note] = Note) -> Iterator[type[Note]]:
    for kind in of.__subclasses__():
        yield kind
        yield from kinds(kind)


OF_CONTRACTS = (searched.CausesUnsearched, searched.RepairsUnsearched)  # said below
BARE = [kind for kind in kinds() if not fields(kind)]


@pytest.mark.parametrize("kind", BARE)
def test_a_note_without_fields_has_words(kind: type[Note]) -> None:
    assert words(kind())


@pytest.mark.parametrize("kind", [*kinds()])
def test_no_note_is_without_words(kind: type[Note]) -> None:
    assert inspect.getdoc(kind) and kind.__module__ in (seen.__name__, searched.__name__)
    assert kind in {*BARE, *OF_CONTRACTS, *(type(note) for note, _ in SAID)}


def test_no_two_notes_without_fields_say_the_same() -> None:
    assert len({words(kind()) for kind in BARE}) == len(BARE)


@pytest.mark.parametrize(
    ("breach", "causes_say", "repairs_say"),
    [
        (Breach.DEFAULT_PASSES, "only repairs were searched", "nothing to repair"),
        (Breach.DEFAULT_UNRESOLVED, "only repairs were searched", "raise `--timeout`"),
        (Breach.PLAIN_FAILS, "no causes were searched", "no set of decisions repairs it"),
        (Breach.PLAIN_UNRESOLVED, "only repairs were searched", "run by their ATen kernels instead"),
    ],
)
def test_what_follows_from_ends_that_do_not_hold_is_one_line(
    breach: Breach, causes_say: str, repairs_say: str
) -> None:
    reason = "crash: signal 11 {in} kernel"
    causes = words(searched.CausesUnsearched(breach, Message(reason)))
    repairs = words(searched.RepairsUnsearched(breach, Message(reason)))
    assert causes_say in causes and repairs_say in repairs
    assert all(f"({reason})" in said and "\n" not in said for said in (causes, repairs))


def test_no_two_breaches_share_a_sentence() -> None:
    said = {words(kind(breach, Message(""))) for kind in OF_CONTRACTS for breach in Breach}
    assert len(said) == len(OF_CONTRACTS) * len(Breach)
