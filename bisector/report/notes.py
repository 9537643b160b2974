"""The words of each note: one sentence, or a part of one where a note is the reason in another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch

from bisector.core import notes as seen
from bisector.core import search_notes as searched
from bisector.core.contract import Breach
from bisector.core.notes import Note, Relation
from bisector.core.outcome import Outcome

from .reasons import words as words_of_reason
from .words import named

MOST_TOLD = 3  # decisions of a set that are named

# Of notes that have nothing to tell but themselves.
_FIXED: Mapping[type[Note], str] = {
    seen.NoGraph: "no compiled call comes to a graph: Dynamo leaves all of it to Python, or it raises before",
    seen.DrawnAlike: "the program draws random numbers, which torch.compile draws otherwise; this is what "
    "differs beneath, with fallback_random=True",
    seen.NoBackendDiverges: "no backend that was tried shows it",
    searched.DecisionsOfTheScript: "the decisions are those of the whole script, each with the number of its "
    "graph",
    searched.RegionRefuted: "a region with the same mismatch was searched first; nothing that repairs it "
    "repairs the whole",
    searched.PartRefuted: "no flag that repairs a part of the inputs repairs the whole",
    searched.LaterCallsDiverge: "what repairs the script up to the first call that diverges is not seen to "
    "repair the calls after it, so that decisions and flags were searched in all of them",
    searched.GraphsRefuted: "no flag that repairs a part of the script repairs the whole",
    searched.RaisesInstead: "one of the two runs raises, and has no values",
    searched.AgreesWhenWatched: "with its intermediate values returned the compiled program does not diverge "
    "in this way",
    searched.NothingArises: "no node differs from eager on equal inputs",
    searched.NoRepairKnown: "no flag and no set of decisions is known that repairs the whole graph",
    searched.NotMinimized: "the case was not made smaller (--no-minimize)",
    searched.MechanismAlone: "the minimal case shows the mechanism alone: what repairs it leaves the whole "
    "graph diverging",
    searched.InputsReplaced: "the inputs of the minimal case are not the script's own: some were multiplied, "
    "cast or given plainer values, with which a case this small diverges alike",
    seen.CommitInBinary: "the commit: the change comes with the binary, so that each commit must be built; "
    "`git bisect run numbisect check` in a clone does that",
    seen.UncommittedLeftOut: "what is not committed in the clone: each commit was taken as it is",
    searched.NotRepairedAlike: "it diverges in the same way, but what repairs the target does not repair it",
}


@singledispatch
def words(note: Note) -> str:
    """What the report says of it."""
    return _FIXED[type(note)]


@words.register
def _(note: seen.Reported) -> str:
    return words_of_reason(note.why)


# -- the calls and runs that the verdict is about -----------------------------------------------------------


@words.register
def _(note: seen.NoReference) -> str:
    return f"no float64 reference: {note.why}"


@words.register
def _(note: seen.HeldAtItsSize) -> str:
    default = "the default absolute tolerance is larger than values of it that are off"
    return f"{note.name} is held to an absolute tolerance of {note.tolerance:.3g}: {default}"


@words.register
def _(note: seen.SeveralTolerances) -> str:
    tolerances = ", ".join(f"rtol {rtol:g} with atol {atol:g}" for rtol, atol in note.tolerances)
    compares = f"the script compares {note.path} with several tolerances ({tolerances})"
    return f"{compares}; the repro holds it to the first of these"


@words.register
def _(note: seen.OneOfSeveralCalls) -> str:
    kept = f", of which {note.recorded} were recorded" if note.made > note.recorded else ""
    this = named(note.examined)
    calls = f"the script makes {note.made} calls of compiled graphs{kept}; this is {this}"
    if note.first is None:
        return calls
    first = named(note.first)
    return f"{calls}; the first that diverges, each on the inputs that it has in eager, is {first}"


_RELATIONS = {
    Relation.SAME: "of the same cause",
    Relation.ANOTHER: "of another cause",
    Relation.UNKNOWN: "not known whether of the same cause",
}


@words.register
def _(note: seen.OtherCallDiverges) -> str:
    call = note.call
    this = named(seen.CallName(call.number, call.entry))
    diverges = f"{this} diverges too: {words_of_reason(call.reason)} ({_RELATIONS[call.cause]}"
    if call.cause is Relation.SAME:
        return f"{diverges})"
    if note.every:
        return f"{diverges}; explained in call-{call.number})"
    return f"{diverges}; `--call {call.number}` explains it, `--all` each of them)"


@words.register
def _(note: seen.ScriptEnded) -> str:
    return f"while its calls were recorded the script ended: {note.how}"


@words.register
def _(note: seen.AgreesWithSeeds) -> str:
    first, second = note.seeds
    return f"with seeds {first} and {second} it agrees too"


@words.register
def _(note: seen.UnjudgedWithSeed) -> str:
    return f"with seed {note.seed} it could not be told whether it agrees"


@words.register
def _(note: seen.DivergesWithSomeSeeds) -> str:
    count, first, last = len(note.seeds), note.seeds[0], note.seeds[-1]
    some = f"it diverges with {note.diverging} of {count} seeds ({first} to {last})"
    return f"the script sets no seed: {some}; this is seed {note.examined}"


@words.register
def _(note: seen.BackendUnjudged) -> str:
    return f"whether backend={note.backend} shows it too could not be told"


@words.register
def _(note: seen.VariationNotSought) -> str:
    return f"where the runs begin to differ was not looked for: {words_of_reason(note.why)}"


@words.register
def _(note: seen.VariationUnknown) -> str:
    return f"where the runs begin to differ is not known: {note.why}"


@words.register
def _(note: seen.VariesFrom) -> str:
    where = f" ({note.where})" if note.where else ""
    return f"the runs of the compiled program begin to differ at `{note.node}`{where}"


@words.register
def _(note: seen.AlikeWith) -> str:
    agree = {Outcome.PASS: "agree with eager", Outcome.FAIL: "still differ from eager"}
    agreement = agree.get(note.outcome, "cannot be compared with eager")
    return f"with {note.setting} = {note.value} all runs are alike, and {agreement}"


@words.register
def _(note: seen.NothingMakesAlike) -> str:
    return f"no setting that was tried makes the runs alike: {', '.join(note.tried)}"


@words.register
def _(note: seen.NotShownInFork) -> str:
    died = "ends without values too, and no decision can be tried on it"
    shows = died if note.died else "does not show it"
    return f"a run of the script in a fork of a warm process {shows} ({words_of_reason(note.why)})"


@words.register
def _(note: seen.KnownCause) -> str:
    return f"The cause is known: {note.key}. It was confirmed here by its own probes."


@words.register
def _(note: seen.NoBuildAsked) -> str:
    return f"no build was asked: {note.why}"


@words.register
def _(note: seen.CommitUnknown) -> str:
    return f"the commit: {words_of_reason(note.why)}"


# -- the search ---------------------------------------------------------------------------------------------


@words.register
def _(note: searched.EndedAtCall) -> str:
    return f"the search runs it up to call {note.call} of {note.of}, the first that diverges"


@words.register
def _(note: searched.GraphsCompiledAlone) -> str:
    kept = " and ".join(f"g{number}" for number in note.graphs)
    return f"of its {note.of} graphs it diverges with {kept} alone compiled"


@words.register
def _(note: searched.CallsCompiledAlone) -> str:
    kept = ", ".join(map(str, note.calls))
    word = "call" if len(note.calls) == 1 else "calls"
    return f"of its {note.of} calls it diverges with {word} {kept} alone compiled"


@words.register
def _(note: searched.StatementsLeftOut) -> str:
    return f"the repro runs {note.lines} of its {note.of} lines of code: without the others it diverges alike"


@words.register
def _(note: searched.SearchedInRegion) -> str:
    return (
        f"decisions and flags were searched in a region of {note.calls} of {note.of} calls with the same "
        "mismatch; what repairs the region was then tried on the whole graph"
    )


@words.register
def _(note: searched.SearchedOnPart) -> str:
    return (
        f"flags were tried on a part of the inputs with the same mismatch ({note.elements} of {note.of} "
        "elements); what repairs that part was then tried on the whole"
    )


@words.register
def _(note: searched.SearchedAtOperation) -> str:
    return (
        f"no single node carries the divergence; flags were tried on {note.operation} by itself, which "
        "differs in its bits alone, and what repairs that was then tried on the whole graph"
    )


@words.register
def _(note: searched.Untraced) -> str:
    return f"the origin and the amplifier are not established: {words(note.why)}"


@words.register
def _(note: searched.NotMaterialized) -> str:
    names = ", ".join(f"`{name}`" for name in note.nodes)
    return f"not materialized by the compiled program: {names}; an error there appears in what reads it"


_CAUSES = {
    Breach.DEFAULT_PASSES: "with every decision enabled in an otherwise unoptimized compile nothing diverges "
    "({reason}): the mismatch comes from something that is no decision; only repairs were searched",
    Breach.DEFAULT_UNRESOLVED: "with every decision enabled in an otherwise unoptimized compile it could not "
    "be told whether it diverges ({reason}); only repairs were searched",
    Breach.PLAIN_FAILS: "the unoptimized compile diverges too ({reason}): the formula of a lowering is to "
    "blame, or something that is no decision; no causes were searched",
    Breach.PLAIN_UNRESOLVED: "it could not be told whether the unoptimized compile diverges ({reason}); "
    "only repairs were searched",
}

_REPAIRS = {
    Breach.DEFAULT_PASSES: "the default compile agrees with eager ({reason}): there is nothing to repair; "
    "if it diverged before, probe it more often with `--repeat`",
    Breach.DEFAULT_UNRESOLVED: "it could not be told whether the default compile diverges ({reason}): no "
    "search can start; for a timeout raise `--timeout`, for trials that disagree fix the seed with `--seed`",
    Breach.PLAIN_FAILS: "with every decision disabled the compile still diverges ({reason}): no set of "
    "decisions repairs it; single nodes were run by their ATen kernels instead",
    Breach.PLAIN_UNRESOLVED: "with every decision disabled it could not be told whether the compile diverges "
    "({reason}); single nodes were run by their ATen kernels instead",
}


@words.register
def _(note: searched.CausesUnsearched) -> str:
    return _CAUSES[note.breach].format(reason=words_of_reason(note.reason))


@words.register
def _(note: searched.RepairsUnsearched) -> str:
    return _REPAIRS[note.breach].format(reason=words_of_reason(note.reason))


@words.register
def _(note: searched.DeniedUnjudged) -> str:
    return f"a repair may be missing: what disabling {_first_of(note.sets)} does could not be judged"


@words.register
def _(note: searched.DeniedUnexplained) -> str:
    breaks = "breaks all that were found, and does not repair"
    return f"a cause may be missing: disabling {_first_of(note.sets)} {breaks}"


@words.register
def _(note: searched.RestUnjudged) -> str:
    return f"a repair may be missing: what disabling all but {_first_of(note.sets)} does could not be judged"


def _first_of(sets: Sequence[Sequence[str]]) -> str:
    first = " and ".join(sets[0]) if len(sets[0]) <= MOST_TOLD else f"{len(sets[0])} decisions"
    return first if len(sets) == 1 else f"{first} (and {len(sets) - 1} more such sets)"


@words.register
def _(note: searched.DivergesBeforeInductor) -> str:
    return f"{note.backend} diverges already, and no decision that numbisect knows repairs it"


@words.register
def _(note: searched.NotConfirmed) -> str:
    return f"not confirmed in a second process: {words_of_reason(note.why)}"


# -- the minimal case, the repro and the test ---------------------------------------------------------------


@words.register
def _(note: searched.SizeNotTried) -> str:
    return f"the inputs have {note.elements} elements; a smaller size was not tried"


@words.register
def _(note: searched.AllElementsNeeded) -> str:
    along = ", ".join(f"dimension {one.dim} of `{one.name}` ({one.length})" for one in note.along)
    return (
        f"the inputs have {note.elements} elements: in all smaller cases that were tried, with less along "
        f"{along}, compiled agrees with eager or differs in another way"
    )


@words.register
def _(note: searched.SmallerCaseNotFollowed) -> str:
    return f"a smaller case ({', '.join(note.ops)}) was not followed: {words(note.why)}"


_REPROS = {
    searched.ReproOf.GRAPH: "repro of the graph alone",
    searched.ReproOf.SCRIPT: "repro that is the script itself",
}


@words.register
def _(note: searched.ReproNotWritten) -> str:
    return f"no {_REPROS[note.of]} could be written: {note.why}"


@words.register
def _(note: searched.ReproAgrees) -> str:
    return f"a {_REPROS[note.of]} does not diverge in plain Python ({note.printed})"


@words.register
def _(note: searched.FixFailsInRepro) -> str:
    return f"{note.fix} does not repair the repro in a fresh process; it is not confirmed"


@words.register
def _(note: searched.NotFailingAsTest) -> str:
    return f"the repro does not fail as a test in a fresh process ({note.printed or 'it passes'})"
