"""The result.json of a run, from what the stages found."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bisector.core.answer import Answer, Result
from bisector.core.decision import DecisionId
from bisector.core.fix import Fix
from bisector.core.fix_source import paste_lines
from bisector.core.flags import Contrast, FlagTrial
from bisector.core.followed import FollowedGraph
from bisector.core.judge import compared_in
from bisector.core.mechanism import Carries, FoundFamily
from bisector.core.model import OutputMeasurement
from bisector.core.notes import NoReference
from bisector.core.other_calls import Relation
from bisector.core.own_folders import NEIGHBOUR, PAGE
from bisector.core.search.graded import Graded
from bisector.core.search.minimal import MinimalSet
from bisector.core.smaller import Neighbour
from bisector.core.trace import NodeTrace
from bisector.core.verdict import Rule

from .notes import words

_SAME_CAUSE = {Relation.SAME: True, Relation.ANOTHER: False, Relation.UNKNOWN: None}


def to_json(result: Result) -> dict[str, Any]:
    """The dict that result.json holds; floats that are not finite become strings."""
    answer = result.answer
    known = {
        "schema_version": 1,
        "target": answer.target,
        "run": answer.run,
        "exit_status": result.status,
        "environment": dict(answer.environment),
        "verdict": _verdict(answer),
        "origin": None if answer.origin is None else _origin(answer.origin),
        "amplifier": None if answer.amplifier is None else _amplifier(answer.amplifier),
        "graph": None if answer.graph is None else _graph(answer.graph),
        **findings(answer),
        "minimal": _minimal(answer),
        "builds": answer.builds,
        "repro": answer.repro,
        "test": answer.test,
        "report_html": PAGE,
        "report_markdown": "report.md",
        "probes": dict(result.probes),
        "seconds": dict(result.seconds),
        "stopped_because": answer.stopped_because,
        "seed": answer.seed,
        "settings": dict(answer.settings),
        "hooks_off": dict(answer.hooks_off),
        "not_here": dict(answer.not_here),
        "places": list(answer.places),
        "text_notes": [words(note) for note in answer.notes],
        "decisions": _decisions(answer),
        "others": [
            {"call": o.number, "entry": o.entry, "reason": o.reason, "same_cause": _SAME_CAUSE[o.cause]}
            for o in answer.others
        ],
    }
    if answer.script is not None:
        known["script"] = asdict(answer.script) | {"outcome": answer.script.outcome.value}
    known["repro_fix"] = answer.repro_fix
    if answer.unproved is not None:
        known["unproved"] = answer.unproved
    if answer.entry is not None:
        known["entry"] = answer.entry
    if answer.second is not None:
        known["confirmation"] = {
            "process": "a second worker that ran the script again",
            "default": answer.second.default.value,
            "repairs": [outcome.value for outcome in answer.second.repairs],
        }
    finite: dict[str, Any] = finite_floats(known)
    return finite


def _verdict(answer: Answer) -> dict[str, Any]:
    verdict = answer.verdict
    outputs = [output for output in answer.default.outputs if output.raised is None]
    criterion = answer.criterion
    tolerances = [list(criterion.tolerance(o.path, o.dtype)) for o in outputs if criterion.by_tolerances]
    return {
        "class": "unresolved" if verdict is None else verdict.kind.value,
        "reason": "" if verdict is None else verdict.reason,
        "rule": Rule.MEASURED.value if verdict is None else verdict.rule.value,
        "figures": {} if verdict is None else dict(verdict.figures),
        "proof": _proof(answer),
        "first_bad_backend": answer.first_bad_backend,
        "outputs": [_output(o) for o in outputs],
        "criterion": {
            "source": criterion.source,
            "tolerances": tolerances,
            "signed_zero": criterion.signed_zero,
            "measure": criterion.measure or None,
        },
    }


def _proof(answer: Answer) -> dict[str, Any]:
    """Which experiment decided the class, what the two runs were compared in, and whether the float64 run is
    one of the same program."""
    verdict, default = answer.verdict, answer.default
    compared = (verdict.compared if verdict is not None else None) or compared_in(default)
    is_known = any(output.rms_error_compiled is not None for output in default.outputs)
    why_not = next((words(note) for note in answer.notes if isinstance(note, NoReference)), None)
    return {
        "experiment": Rule.MEASURED.value if verdict is None else verdict.rule.value,
        "compared": asdict(compared),
        "reference": "valid" if is_known else why_not,
    }


def _origin(node: NodeTrace) -> dict[str, Any]:
    file, _, line = _relative(node.where).rpartition(":")
    return {
        "node": node.name,
        "op": node.op or None,
        "file": file or None,
        "line": int(line) if file else None,
        "local_error_ulp": node.local_ulp,
    }


def _graph(graph: FollowedGraph) -> dict[str, Any]:
    nodes = []
    for node in graph.nodes:
        figures = {name: _rounded(getattr(node, name)) for name in ("ulp", "carried_ulp", "gain")}
        nodes.append(asdict(node) | {"where": _relative(node.where)} | figures)
    return {"nodes": nodes, "outputs": dict(graph.outputs)}


def _rounded(value: float | None) -> float | None:
    """To four digits: there is one of these for each node of a large graph."""
    return None if value is None else float(f"{value:.4g}")


def _amplifier(node: NodeTrace) -> dict[str, Any]:
    return {"node": node.name, "op": node.op or None, "gain": node.gain}


_OUTPUT_FIELDS = (
    "index",
    "path",
    "dtype",
    "n_diff",
    "numel",
    "max_abs",
    "max_rel",
    "max_ulp",
    "nonfinite_mismatches",
    "rms_error_eager",
    "rms_error_compiled",
)


def _output(output: OutputMeasurement) -> dict[str, Any]:
    return {name: getattr(output, name) for name in _OUTPUT_FIELDS} | {"shape": list(output.shape)}


def _minimal(answer: Answer) -> dict[str, Any] | None:
    info = answer.minimal
    if info is None:
        return None
    tensors = [n for n in info.inputs if n.is_tensor]
    minimal: dict[str, Any] = {
        "ops": list(info.aten),
        "n_ops": info.n_ops,
        "calls": [node.name for node in info.calls],
        "inputs": [{"shape": list(n.shape or ()), "dtype": n.dtype} for n in tensors],
        "input_numel": sum(n.numel for n in tensors),
        "lines": answer.repro_lines,
    }
    if answer.minimal_source is not None:
        minimal["graph"] = answer.minimal_source
    return minimal


def _decisions(answer: Answer) -> dict[str, Any]:
    mentioned = {m for r in answer.repairs for m in r.found.members}
    mentioned |= {m for found, _ in answer.causes for m in found.members} | set(answer.places)
    mentioned |= {s.decision for s in answer.graded.shares} if answer.graded is not None else set()
    flags = {t.flag.name: t.flag for t in answer.walk.trials}
    described = {
        d.id: {"text": d.text, "where": _relative(d.where)} | ({"source": d.source} if d.source else {})
        for d in answer.decisions
        if d.id in mentioned
    }
    for member in mentioned - described.keys():
        flag = flags.get(member.place)
        described[member] = {"text": flag.effect if flag else "", "where": ""}
    return dict(sorted(described.items()))


def _relative(where: str) -> str:
    """A place below the working directory without it, as the user would name the file."""
    return where.removeprefix(os.getcwd() + os.sep)


def finite_floats(value: Any) -> Any:
    """The same value with "inf", "-inf" and "nan" for floats that JSON cannot hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {k: finite_floats(v) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [finite_floats(v) for v in value]
    return value


SHOWN_LINES = 40  # of the difference between the code of two cases; a longer one is in its file alone


def findings(answer: Answer) -> dict[str, Any]:
    """The members of the contract's dict that say what explains the divergence."""
    walk = answer.walk
    return {
        "repairs": [
            {
                "decisions": list(r.found.members),
                "confirmed": r.confirmed,
                "removed_fraction": r.removed_fraction,
            }
            for r in answer.repairs
        ],
        "causes": [_cause(cause, confirmed) for cause, confirmed in answer.causes],
        "fixes": [_fix(fix, confirmed, answer) for fix, confirmed in answer.fixes],
        "flags": [_flag(t, walk.variables) for t in (*walk.trials, *walk.milder)],
        "contrast": None if answer.contrast is None else _contrast(answer.contrast),
        "neighbour": _neighbour(answer.neighbour),
        **_graded(answer.graded),
        **({} if answer.family is None else {"family": _family(answer.family)}),
    }


def _cause(cause: MinimalSet[DecisionId], confirmed: bool) -> dict[str, Any]:
    evidence = {"alone": cause.alone.value, "without_each": [o.value for o in cause.without_each]}
    return {"decisions": list(cause.members), "confirmed": confirmed, "evidence": evidence}


def _fix(fix: Fix, confirmed: bool, answer: Answer) -> dict[str, Any]:
    return {
        "id": fix.id,
        "kind": fix.kind,
        "set": dict(fix.values) if fix.values else None,
        "removed_fraction": fix.removed_fraction,
        "residual_max_abs": fix.residual_max_abs,
        "slowdown": fix.cost.slowdown if fix.cost else None,
        "slowdown_spread": list(fix.cost.spread) if fix.cost else None,
        "confirmed": confirmed,
        "other_inputs": None if fix.others is None else asdict(fix.others),
        "paste": _paste(fix, answer),
        "same_program": _same_program(fix, answer),
    }


def _paste(fix: Fix, answer: Answer) -> list[str]:
    return [] if fix.plain is None else paste_lines(fix.plain, answer.settings, answer.walk.variables)


def _same_program(fix: Fix, answer: Answer) -> str | None:
    """The ID of an earlier fix."""
    fixes = [f for f, _ in answer.fixes]
    same = fix.same_as(fixes[: fixes.index(fix)])
    return None if same is None else same.id


def _flag(trial: FlagTrial, variables: Mapping[str, str]) -> dict[str, Any]:
    """variables: environment variables that set flags, by the flag."""
    return {
        "name": trial.flag.name,
        "default": trial.default,
        "tried": trial.value,
        "outcome": trial.result.outcome.value,
        "removed_fraction": trial.removed_fraction,
        "role": trial.role,
        "told_by": trial.told_by,
        "grown": trial.grown,
        "env": variables.get(trial.flag.name),
    }


def _contrast(contrast: Contrast) -> dict[str, Any]:
    return {
        "with": contrast.name,
        "target": contrast.target.value,
        "repairs": [dict(settings) for settings in contrast.repairs],
        "causes": [dict(settings) for settings in contrast.causes],
        "unknown": contrast.unknown,
    }


def _graded(graded: Graded | None) -> dict[str, Any]:
    shares = graded.shares if graded is not None else ()
    return {
        "graded": [
            {"decision": s.decision, "removed_fraction": s.removed, "left_fraction": s.left} for s in shares
        ],
        "adds_up": graded.adds_up if graded is not None else None,
        "removed_together": graded.together if graded is not None else None,
    }


def _family(found: FoundFamily) -> dict[str, Any]:
    family = found.family
    return {
        "kinds": list(found.kinds),
        "groups": list(family.groups),
        "places": len(family.members),
        "removed_fraction": family.removed,
        "confirmed": found.confirmed,
        "halves": [half.removed for half in family.halves],
        "alone": dict(family.alone),
        "without": dict(family.without),
        "layers": [_carries(part) for part in found.layers],
        "operations": [_carries(part) for part in found.operations],
        "nodes": [_carries(part) for part in found.nodes],
        "adds_up": found.adds_up,
    }


def _carries(part: Carries) -> dict[str, Any]:
    carried = {"name": part.name, "places": part.places, "alone": part.alone, "without": part.without}
    return carried | ({"made_by": list(part.made_by)} if part.made_by else {})


def _neighbour(found: Neighbour | None) -> dict[str, Any] | None:
    if found is None:
        return None
    lines = list(found.diff) if len(found.diff) <= SHOWN_LINES else []
    return {"differs_by": found.differs_by, "artifact_diff": NEIGHBOUR if found.diff else None, "diff": lines}
