"""The document result.json of a run, from what the stages found."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from bisector.core.answer import Answer, Result
from bisector.core.criterion import Criterion
from bisector.core.decision import DecisionId
from bisector.core.fix import Fix
from bisector.core.fix_source import paste_lines
from bisector.core.flags import Contrast, FlagTrial
from bisector.core.followed import FollowedGraph, FollowedNode
from bisector.core.graphinfo import GraphInfo
from bisector.core.judge import compared_in
from bisector.core.mechanism import Carries, FoundFamily
from bisector.core.model import OutputMeasurement
from bisector.core.notes import AlsoDiverges, NoReference, Relation
from bisector.core.own_folders import NEIGHBOUR, PAGE
from bisector.core.script_tried import UnderFix
from bisector.core.search.graded import Graded
from bisector.core.search.minimal import MinimalSet
from bisector.core.smaller import Neighbour
from bisector.core.standing import Place, Standing
from bisector.core.steps import FoundSteps, Step
from bisector.core.trace import NodeTrace

from . import document as parts
from . import endings
from .document import VERSION, Document
from .notes import words
from .probe_reasons import measure
from .reasons import words as words_of_reason

_SAME_CAUSE = {Relation.SAME: True, Relation.ANOTHER: False, Relation.UNKNOWN: None}
SHOWN_LINES = 40  # of the difference between the code of two cases; a longer one is in its file alone


def document_of(result: Result) -> Document:
    """What result.json holds of what the stages found."""
    answer, walk = result.answer, result.answer.walk
    graded = answer.graded or Graded()
    return Document(
        schema_version=VERSION,
        target=answer.target,
        run=answer.run,
        exit_status=result.status,
        environment=parts.Environment(**answer.environment),
        verdict=_verdict(answer),
        origin=None if answer.origin is None else _origin(answer.origin),
        amplifier=None if answer.amplifier is None else _amplifier(answer.amplifier),
        graph=None if answer.graph is None else _graph(answer.graph),
        repairs=tuple(
            parts.Repair(
                decisions=r.found.members, confirmed=r.confirmed, removed_fraction=r.removed_fraction
            )
            for r in answer.repairs
        ),
        causes=tuple(_cause(cause, confirmed) for cause, confirmed in answer.causes),
        fixes=tuple(_fix(fix, confirmed, answer) for fix, confirmed in answer.fixes),
        flags=tuple(_flag(trial, walk.variables) for trial in (*walk.trials, *walk.milder)),
        contrast=None if answer.contrast is None else _contrast(answer.contrast),
        neighbour=None if answer.neighbour is None else _nearest(answer.neighbour),
        graded=tuple(
            parts.Share(decision=s.decision, removed_fraction=s.removed, left_fraction=s.left)
            for s in graded.shares
        ),
        adds_up=None if answer.graded is None else graded.adds_up,
        removed_together=graded.together,
        minimal=None if answer.minimal is None else _minimal(answer.minimal, answer),
        builds=answer.builds,
        repro=answer.repro,
        repro_fix=answer.repro_fix,
        test=answer.test,
        report_html=PAGE,
        report_markdown="report.md",
        probes=result.probes,
        seconds=result.seconds,
        stopped_because=None if answer.stopped_because is None else endings.words(answer.stopped_because),
        seed=answer.seed,
        settings=answer.settings,
        hooks_off=answer.hooks_off,
        not_here=answer.not_here,
        places=answer.places,
        text_notes=tuple(words(note) for note in answer.notes),
        decisions=_decisions(answer),
        others=tuple(map(_other, answer.others)),
        first_place=_first_place(answer.by_call.place),
        calls=tuple(map(_standing, answer.by_call.standings)),
        reuses=answer.reuses,
        steps=None if answer.steps is None else _steps(answer.steps),
        family=None if answer.family is None else _family(answer.family),
        script=None if answer.script is None else _under_fix(answer.script),
        unproved=None if answer.unproved is None else words_of_reason(answer.unproved),
        entry=answer.entry,
        confirmation=_confirmation(answer),
    )


def _verdict(answer: Answer) -> parts.VerdictPart:
    verdict = answer.classified
    return parts.VerdictPart(
        class_=verdict.kind,
        reason=words_of_reason(verdict.reason),
        rule=verdict.rule,
        figures=verdict.figures,
        proof=_proof(answer),
        first_bad_backend=answer.first_bad_backend,
        outputs=tuple(map(_output, answer.outputs)),
        criterion=_held(answer.criterion, answer.outputs),
    )


def _first_place(found: Place | None) -> parts.FirstPlace | None:
    if found is None:
        return None
    call = found.call
    return parts.FirstPlace(call=call.number, of=found.of, entry=call.entry, values=found.values)


def _standing(one: Standing) -> parts.CallStanding:
    return parts.CallStanding(
        call=one.call.number, entry=one.call.entry, outputs=one.outputs, gradients=one.gradients,
        left=one.left, differs=one.differs,
    )  # fmt: skip


def _steps(found: FoundSteps) -> parts.Steps:
    return parts.Steps(
        steps=tuple(map(_step, found.steps)), alone=found.alone, inside=tuple(map(_step, found.inside)),
        needed=found.needed,
    )  # fmt: skip


def _step(step: Step) -> parts.Step:
    return parts.Step(id=step.id, code=step.code, becomes=step.becomes, where=step.where)


def _other(call: AlsoDiverges) -> parts.OtherCall:
    return parts.OtherCall(
        call=call.number,
        entry=call.entry,
        reason=words_of_reason(call.reason),
        same_cause=_SAME_CAUSE[call.cause],
    )


def _held(criterion: Criterion, outputs: Sequence[OutputMeasurement]) -> parts.Held:
    tolerances = tuple(criterion.tolerance(o.path, o.dtype) for o in outputs if criterion.by_tolerances)
    return parts.Held(
        source=criterion.source,
        tolerances=tolerances,
        signed_zero=criterion.signed_zero,
        measure=measure(criterion) or None,
    )


def _proof(answer: Answer) -> parts.Proof:
    """Which experiment decided the class, what the two runs were compared in, and whether the float64 run is
    one of the same program."""
    verdict, default = answer.classified, answer.default
    is_known = any(output.rms_error_compiled is not None for output in default.outputs)
    why_not = next((words(note) for note in answer.notes if isinstance(note, NoReference)), None)
    return parts.Proof(
        experiment=verdict.rule.value,
        compared=verdict.compared or compared_in(default),
        reference="valid" if is_known else why_not,
    )


def _origin(node: NodeTrace) -> parts.Origin:
    file, _, line = _relative(node.where).rpartition(":")
    return parts.Origin(
        node=node.name,
        op=node.op or None,
        file=file or None,
        line=int(line) if file else None,
        local_error_ulp=node.local_ulp,
    )


def _amplifier(node: NodeTrace) -> parts.Amplifier:
    return parts.Amplifier(node=node.name, op=node.op or None, gain=node.gain)


def _graph(graph: FollowedGraph) -> parts.Graph:
    return parts.Graph(nodes=tuple(map(_shortened, graph.nodes)), outputs=dict(graph.outputs))


def _shortened(node: FollowedNode) -> FollowedNode:
    """With its figures to four digits: there are three for each node of a large graph."""
    return replace(
        node,
        where=_relative(node.where),
        ulp=_short(node.ulp),
        carried_ulp=None if node.carried_ulp is None else _short(node.carried_ulp),
        gain=None if node.gain is None else _short(node.gain),
    )


def _short(value: float) -> float:
    return float(f"{value:.4g}")


_OUTPUT_FIELDS = [field.name for field in fields(parts.Output)]


def _output(output: OutputMeasurement) -> parts.Output:
    return parts.Output(**{name: getattr(output, name) for name in _OUTPUT_FIELDS})


def _minimal(info: GraphInfo, answer: Answer) -> parts.Minimal:
    tensors = [node for node in info.inputs if node.is_tensor]
    return parts.Minimal(
        ops=tuple(info.aten),
        n_ops=info.n_ops,
        calls=tuple(node.name for node in info.calls),
        inputs=tuple(parts.Input(shape=node.shape or (), dtype=str(node.dtype)) for node in tensors),
        input_numel=sum(node.numel for node in tensors),
        lines=answer.repro_lines,
        graph=answer.minimal_source,
    )


def _decisions(answer: Answer) -> dict[DecisionId, parts.DecisionText]:
    mentioned = {m for r in answer.repairs for m in r.found.members}
    mentioned |= {m for found, _ in answer.causes for m in found.members} | set(answer.places)
    mentioned |= {s.decision for s in answer.graded.shares} if answer.graded is not None else set()
    flags = {t.flag.name: t.flag for t in answer.walk.trials}
    described = {
        d.id: parts.DecisionText(text=d.text, where=_relative(d.where), source=d.source)
        for d in answer.decisions
        if d.id in mentioned
    }
    for member in mentioned - described.keys():
        flag = flags.get(member.place)
        described[member] = parts.DecisionText(text=flag.effect if flag else "", where="")
    return dict(sorted(described.items()))


def _relative(where: str) -> str:
    """A place below the working directory without it, as the user would name the file."""
    return where.removeprefix(os.getcwd() + os.sep)


def _cause(cause: MinimalSet[DecisionId], confirmed: bool) -> parts.Cause:
    evidence = parts.Evidence(alone=cause.alone, without_each=cause.without_each)
    return parts.Cause(decisions=cause.members, confirmed=confirmed, evidence=evidence)


def _fix(fix: Fix, confirmed: bool, answer: Answer) -> parts.Fix:
    pasted = [] if fix.plain is None else paste_lines(fix.plain, answer.settings, answer.walk.variables)
    earlier = [other for other, _ in answer.fixes]
    same = fix.same_as(earlier[: earlier.index(fix)])
    return parts.Fix(
        id=fix.id,
        kind=fix.kind,
        set_=fix.values or None,
        removed_fraction=fix.removed_fraction,
        residual_max_abs=fix.residual_max_abs,
        slowdown=fix.cost.slowdown if fix.cost else None,
        slowdown_spread=fix.cost.spread if fix.cost else None,
        confirmed=confirmed,
        other_inputs=fix.others,
        paste=tuple(pasted),
        same_program=None if same is None else same.id,
    )


def _flag(trial: FlagTrial, variables: Mapping[str, str]) -> parts.FlagTried:
    """variables: environment variables that set flags, by the flag."""
    return parts.FlagTried(
        name=trial.flag.name,
        default=trial.default,
        tried=trial.value,
        outcome=trial.result.outcome,
        removed_fraction=trial.removed_fraction,
        role=trial.role,
        told_by=trial.told_by,
        grown=trial.grown,
        env=variables.get(trial.flag.name),
    )


def _contrast(contrast: Contrast) -> parts.Contrasted:
    return parts.Contrasted(
        with_=contrast.name,
        target=contrast.target,
        repairs=tuple(contrast.repairs),
        causes=tuple(contrast.causes),
        unknown=None if contrast.unknown is None else endings.words(contrast.unknown),
    )


def _family(found: FoundFamily) -> parts.Family:
    family = found.family
    return parts.Family(
        kinds=found.kinds,
        groups=tuple(family.groups),
        places=len(family.members),
        removed_fraction=family.removed,
        confirmed=found.confirmed,
        halves=tuple(half.removed for half in family.halves),
        alone=dict(family.alone),
        without=dict(family.without),
        layers=tuple(map(_carried, found.layers)),
        operations=tuple(map(_carried, found.operations)),
        nodes=tuple(map(_carried, found.nodes)),
        adds_up=found.adds_up,
    )


def _carried(part: Carries) -> parts.Carried:
    return parts.Carried(
        name=part.name, places=part.places, alone=part.alone, without=part.without, made_by=part.made_by
    )


def _nearest(found: Neighbour) -> parts.Nearest:
    lines = tuple(found.diff) if len(found.diff) <= SHOWN_LINES else ()
    return parts.Nearest(
        differs_by=found.differs_by, artifact_diff=NEIGHBOUR if found.diff else None, diff=lines
    )


def _under_fix(script: UnderFix) -> parts.UnderFix:
    reason = "" if script.reason is None else words_of_reason(script.reason)
    own = script.own_difference
    return parts.UnderFix(
        fix=script.fix,
        outcome=script.outcome,
        reason=reason,
        comparisons=script.comparisons,
        own_difference="" if own is None else words_of_reason(own),
        remaining=reason if script.mends_some else "",
    )


def _confirmation(answer: Answer) -> parts.Confirmation | None:
    if answer.second is None:
        return None
    process = "a second worker that ran the script again"
    return parts.Confirmation(process=process, default=answer.second.default, repairs=answer.second.repairs)
