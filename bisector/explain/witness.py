"""The script as its user runs it, against the same with compilation off: what the two show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bisector.core.backends import last_rung, rungs_before
from bisector.core.channel import Channel, to_call, to_words
from bisector.core.criterion import Criterion
from bisector.core.first_bad import first_bad
from bisector.core.fix import CompileAnew, LeaveToPython, PlainFix, SetFlags
from bisector.core.fix_source import compile_arguments, late_lines, statements
from bisector.core.growth import ROUNDED_RUNS, is_made_by_rounding
from bisector.core.notes import Note
from bisector.core.outcome import Outcome
from bisector.core.own_difference import own_difference
from bisector.core.printed import (
    STILL,
    PrintedLine,
    come_and_go,
    compare_lines,
    differing_line,
    moving,
    not_compared,
    without,
)
from bisector.core.program import Carrier, EffectKind, Mode, PlainRun
from bisector.core.reasons import Message, Reason, Together
from bisector.core.script_reasons import (
    AmongLines,
    LineDiffers,
    LineMoves,
    MadeByValuesUnknown,
    NotByRounding,
    NotSeenAgain,
    PlaceDiffers,
)
from bisector.core.script_verdict import (
    DRAWS_ALIKE,
    NOT_ASKED,
    EqualInputs,
    first_unequal,
)
from bisector.core.shown import ScriptResult, differing_places, is_exact, shown
from bisector.core.verdict import Verdict

from .run import Session
from .script_runs import NO_FIX, ScriptRun, ScriptRuns


@dataclass(frozen=True)
class Witness:
    """What the script shows. lines: the printed ones that differ. first_bad_backend: the first rung with
    which it shows the same; None where nothing was shown, no rung was tried, or it is not known; rung_unknown
    then says why. rung: the run with that rung, where it is not the script's own."""

    eager: PlainRun
    compiled: PlainRun
    shown: ScriptResult
    lines: tuple[PrintedLine, ...] = ()
    first_bad_backend: str | None = None
    rung_unknown: Note | None = None
    rung: PlainRun | None = None

    @property
    def last_rung(self) -> str:
        """The backend that the script itself names."""
        return last_rung(self.compiled.backends)


class Script:
    """What the script's own runs show."""

    def __init__(self, runs: ScriptRuns) -> None:
        self.runs = runs

    def witness(self, criterion: Criterion) -> Witness:
        """Two runs of the script, one after the other; two more where nothing but what is printed differs."""
        eager = self.runs.run(self.runs.asked(Mode.EAGER))
        if eager.unfinished:  # there is nothing whole to compare with
            return Witness(eager, PlainRun(), shown(eager, PlainRun(status=0), criterion))
        asked = self.runs.asked(Mode.COMPILED)
        compiled = self.runs.run(asked)
        return Witness(eager, compiled, *self._with_lines(eager, compiled, asked, criterion))

    def _with_lines(
        self, eager: PlainRun, compiled: PlainRun, asked: ScriptRun, criterion: Criterion
    ) -> tuple[ScriptResult, tuple[PrintedLine, ...]]:
        """What two runs show, and where nothing but what they say differs, the lines that do. asked: of the
        compiled run. Both are run once more then: times, addresses and what is drawn without a seed differ
        from run to run."""
        found = shown(eager, compiled, criterion)
        if found.diverges or compiled.unfinished or not compare_lines(eager, compiled):
            return found, ()
        pairs, still, gone = list[tuple[PlainRun, PlainRun]](), STILL, frozenset[str]()
        once_more = (replace(asked, mode=Mode.EAGER_AGAIN, **NO_FIX), replace(asked, again=True))
        if all(line.exactly for line in compare_lines(eager, compiled)):  # what `_nearly_equal` asks first
            self.runs.run_all([once_more[1], replace(asked, mode=Mode.COMPILED_KEPT), once_more[0]])
        for first, second in zip((eager, compiled), once_more, strict=True):
            run = self.runs.run(second)
            if run.unfinished:
                return ScriptResult(Outcome.UNRESOLVED, NotSeenAgain(run.unfinished)), ()
            pairs.append((first, run))
            gone |= come_and_go(first, run)
            still = moving(*[(_without(a, gone), _without(b, gone)) for a, b in pairs])
            settled = _without(eager, gone), _without(compiled, gone)
            if not compare_lines(*settled, still) and not not_compared(*settled, still):
                return _but_for(found, gone, settled), ()
        if whole := not_compared(*settled, still):
            line = Message(differing_line(whole[0], *settled))
            return ScriptResult(Outcome.UNRESOLVED, Together((line, LineMoves()))), ()
        lines = compare_lines(*settled, still)
        if gone:
            line = Message(differing_line(lines[0].number, *settled))
            return ScriptResult(Outcome.UNRESOLVED, AmongLines(line)), ()
        if not all(line.exactly for line in lines):
            lines = tuple(line for line in lines if not line.exactly)
            return shown(eager, compiled, criterion, lines), lines
        return self._nearly_equal(eager, compiled, asked, criterion, lines)

    def _nearly_equal(
        self,
        eager: PlainRun,
        compiled: PlainRun,
        asked: ScriptRun,
        criterion: Criterion,
        lines: tuple[PrintedLine, ...],
    ) -> tuple[ScriptResult, tuple[PrintedLine, ...]]:
        """Where all lines that differ do so in nearly equal numbers: they agree where the values of
        the calls, which agree, make them so."""
        carried = self._channel_to_words(asked, lines)
        if carried.carrier is Carrier.VALUES:
            return shown(eager, compiled, criterion), ()
        found = shown(eager, compiled, criterion, lines)
        if carried.carrier is Carrier.UNKNOWN:
            why = Together((found.reason, MadeByValuesUnknown(carried.unknown)))
            return ScriptResult(Outcome.UNRESOLVED, why), ()
        return found, lines

    def by_seed(self, seeds: Sequence[int], criterion: Criterion) -> dict[int, Outcome]:
        """Whether the script diverges with each of the seeds, by more than what it prints."""
        eager = self.runs.run_all([ScriptRun(seed=seed, mode=Mode.EAGER) for seed in seeds])
        compiled = self.runs.run_all([ScriptRun(seed=seed, mode=Mode.COMPILED) for seed in seeds])
        runs = zip(seeds, eager, compiled, strict=True)
        return {seed: shown(off, on, criterion).outcome for seed, off, on in runs}

    def under(self, fix: PlainFix, criterion: Criterion) -> tuple[ScriptResult, PlainRun, PlainRun]:
        """What the script shows where the lines of a fix are in it, that run, and the one with compilation
        off."""
        asked = self._under(fix)
        eager, run = self.runs.run(self.runs.asked(Mode.EAGER)), self.runs.run(asked)
        found, _ = self._with_lines(eager, run, asked, criterion)
        return found, run, eager

    def compiled(self) -> PlainRun:
        """The script as its user runs it."""
        return self.runs.run(self.runs.asked(Mode.COMPILED))

    def begin_under(self, fix: PlainFix) -> None:
        """Begin what `under` will run (`ScriptRuns.begin_in_background`)."""
        self.runs.begin_in_background(self._under(fix))

    def _under(self, fix: PlainFix) -> ScriptRun:
        asked = self.runs.asked(Mode.COMPILED)
        return replace(
            asked,
            early=statements(fix).early,
            late=(*asked.late, *late_lines(fix)),
            arguments=compile_arguments(fix),
            disabled=tuple(sorted(fix.lines.values())) if isinstance(fix, LeaveToPython) else (),
            anew=tuple(sorted(fix.calls)) if isinstance(fix, CompileAnew) else (),
        )

    def again(self, criterion: Criterion) -> ScriptResult:
        """How a second run with compilation off stands to the first."""
        eager = self.runs.run(self.runs.asked(Mode.EAGER))
        return shown(eager, self.runs.run(self.runs.asked(Mode.EAGER_AGAIN)), criterion)

    def equal_inputs(self, witness: Witness, criterion: Criterion) -> EqualInputs:
        """The first call that differs from eager on equal inputs, up to that at which the script diverges."""
        last = witness.shown.call
        if witness.shown.exception is not None:
            return NOT_ASKED
        carried = None
        if last is None:
            carried = self._channel_to_words(self.runs.asked(Mode.COMPILED), witness.lines)
            if carried.carrier is not Carrier.VALUES or is_exact(witness.compiled):
                return EqualInputs(channel=carried)
        modes = (Mode.EAGER_BESIDE, Mode.COMPILED_BESIDE)
        control, compiled = self.runs.run_all([replace(self.runs.asked(mode), until=last) for mode in modes])
        found = first_unequal(control, compiled, witness.shown, criterion)
        found = replace(found, calls=compiled.calls)
        if found.place is not None or found.unknown is not None:
            return replace(found, channel=carried)
        carried = carried if last is None else self._channel_to_call(last)
        if carried is not None and carried.carrier is Carrier.VALUES:
            found = replace(found, unknown=self._not_by_rounding(witness, criterion))
        return replace(found, channel=carried)

    def _not_by_rounding(self, witness: Witness, criterion: Criterion) -> Reason | None:
        """Why it is not known that rounding makes what the script shows; None where it does."""
        last = witness.shown.call
        asked = replace(self.runs.asked(Mode.EAGER_AGAIN), until=last)
        runs = (self.runs.run(replace(asked, rounded=seed)) for seed in range(ROUNDED_RUNS))
        made = is_made_by_rounding(witness.eager, witness.compiled, runs, criterion, witness.lines, last)
        return None if made else NotByRounding()

    def _channel_to_call(self, last: int) -> Channel:
        """What carries the difference to a call, where no call up to it makes one on equal inputs. last: its
        place."""
        asked = replace(self.runs.asked(Mode.COMPILED), until=last)
        return self._channel(asked, lambda kept, substituted: to_call(kept, substituted, last))

    def _channel_to_words(self, asked: ScriptRun, lines: Sequence[PrintedLine]) -> Channel:
        """What carries it to what the script says outside of its calls. asked: the compiled run."""
        return self._channel(asked, lambda kept, substituted: to_words(kept, substituted, lines))

    def _channel(self, asked: ScriptRun, channel_of: Callable[[PlainRun, PlainRun], Channel]) -> Channel:
        kept = self.runs.run(replace(asked, mode=Mode.COMPILED_KEPT))
        substituted = replace(asked, mode=Mode.SUBSTITUTED)
        found = channel_of(kept, self.runs.run(substituted))
        if found.carrier is not Carrier.OTHER:
            return found
        for carrier in (Carrier.LAYOUT, Carrier.TIME):
            too = channel_of(kept, self.runs.run(replace(substituted, too=carrier)))
            if too.carrier is Carrier.VALUES:
                return Channel(carrier)
        return found

    def as_if_compiling(self, witness: Witness, criterion: Criterion) -> ScriptResult | None:
        """What the script shows with compilation off where calls that ask whether they are compiled hear that
        they are; None where none asks."""
        if not witness.eager.asked_compiling:
            return None
        eager = self.runs.run(replace(self.runs.asked(Mode.EAGER), compiling=True))
        asked = replace(self.runs.asked(Mode.COMPILED), compiling=True)
        return self._with_lines(eager, self.runs.run(asked), asked, criterion)[0]

    def steady(self, witness: Witness, criterion: Criterion) -> Reason | None:
        """Of a script that differs from itself with compilation off: what differs compiled, both times, and
        not there; None where nothing does."""
        eager, compiled = witness.eager, witness.compiled
        again = self.runs.run(self.runs.asked(Mode.EAGER_AGAIN))
        second = self.runs.run(self.runs.asked(Mode.COMPILED, again=True))
        both = differing_places(eager, compiled, criterion) & differing_places(eager, second, criterion)
        if places := sorted(both - differing_places(eager, again, criterion)):
            return PlaceDiffers(places[0])
        lines = compare_lines(eager, compiled, moving((eager, again), (compiled, second)))
        far = [line.number for line in lines if not line.exactly]
        return LineDiffers(Message(differing_line(far[0], eager, compiled))) if far else None

    def draws(self, witness: Witness) -> bool:
        """Whether a call up to that at which the script diverges draws random numbers."""
        last = witness.shown.call
        calls = witness.eager.calls if last is None else witness.eager.calls[: last + 1]
        return any(effect.kind is EffectKind.DRAWS for call in calls for effect in call.effects)

    def with_same_random(self, criterion: Criterion) -> ScriptResult:
        """What the script shows where compiled draws from eager's random streams."""
        return self.under(SetFlags(dict.fromkeys(DRAWS_ALIKE, True)), criterion)[0]

    def own_difference(self, eager: PlainRun) -> Verdict | None:
        """Whether the script says with compilation off too that its sides differ, and why."""
        codes = tuple(dict.fromkeys(call.code for call in eager.calls if call.code))
        asked = replace(self.runs.asked(Mode.EAGER_AGAIN), codes=codes)
        return own_difference(eager, lambda kind: self.runs.run(replace(asked, put_back=kind)))

    def with_backend(self, witness: Witness, criterion: Criterion) -> Witness:
        """Names the first rung that shows a divergence, from Dynamo alone to the script's own backend."""
        rungs = rungs_before(witness.last_rung)
        runs = self.runs.run_all([self.runs.asked(Mode.COMPILED, rung) for rung in rungs])
        outcomes = [
            (rung, shown(witness.eager, run, criterion, witness.lines).outcome)
            for rung, run in zip(rungs, runs, strict=True)
        ]
        first, unknown = first_bad([*outcomes, (witness.last_rung, witness.shown.outcome)])
        run = dict(zip(rungs, runs, strict=True)).get(first or "")
        return replace(witness, first_bad_backend=first, rung_unknown=unknown, rung=run)


def _without(run: PlainRun, gone: frozenset[str]) -> PlainRun:
    """The run without the lines that come and go."""
    return replace(run, printed=without(run.printed, gone), said=without(run.said, gone)) if gone else run


def _but_for(
    found: ScriptResult, gone: frozenset[str], settled: tuple[PlainRun, PlainRun]
) -> ScriptResult:
    """An agreement that counts no lines that were left out."""
    if not gone or found.compared is None:
        return found
    return replace(found, compared=replace(found.compared, lines=max(run.lines for run in settled)))


def script_of(session: Session) -> Script:
    """The script of a session."""
    return Script(session.script_runs)
