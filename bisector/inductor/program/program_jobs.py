"""What a worker answers about a script as a whole: the jobs of `serving.jobs` for it."""

from __future__ import annotations

import torch

from ...core import kinds
from ...core import protocol as asked
from ...core.evidence import Evidence
from ...core.messages import ProgramOptions
from ...core.model import Candidate, Measurement
from ...core.program import PROGRAM, WHOLE_SCRIPT
from ...core.recorded import Recorded, RecordedCall
from ...core.reuse import Reuses
from ...core.steps import Steps
from .. import describe, formula, torch_state
from ..flags import installed, reads
from ..hooks import selftest, tested
from .program_probe import explain_reuse, list_steps, probe


def recorded(options: ProgramOptions) -> Recorded:
    """The script as the one call that there is."""
    devices = ("cuda",) if torch.cuda.is_initialized() else ("cpu",)
    call = RecordedCall(
        index=PROGRAM, graph=0, entry="__main__", nodes=0, backward=False, tolerances={},
        digest=WHOLE_SCRIPT, elements=0, devices=devices, settings={}, backend="inductor",
    )  # fmt: skip
    return Recorded((call,), True, 0, "", 0, (), describe.machine())


def run_probe(options: ProgramOptions, request: asked.RunProbe) -> Measurement:
    return probe(options, request.candidate, request.about.case)


def verdict(options: ProgramOptions, request: asked.RunVerdict) -> Evidence:
    """That the run with compilation off is steady was seen before; there is no reference in float64."""
    return Evidence(probe(options, Candidate(), request.about.case), None, None, (), ())


def reuse(options: ProgramOptions, request: asked.ExplainReuse) -> Reuses:
    return Reuses(explain_reuse(options, request.about.case, request.numbers, request.criterion))


def steps(options: ProgramOptions, request: asked.ListSteps) -> Steps:
    return Steps(list_steps(options, request.about.case))


def self_test(options: ProgramOptions, request: asked.SelfTest) -> asked.HooksTested:
    tried = selftest.run_on_scripts()
    if options.rung not in kinds.FRAME.rungs:  # decisions within a graph are taken
        tried |= selftest.run(selftest.flags_on(lambda flag: options.config.get(f"inductor.{flag}")))
    return tested.hooks_tested(tried, {"cuda"} if torch.cuda.is_initialized() else {"cpu"})


def flags(options: ProgramOptions, request: asked.ReadFlags) -> asked.Settings:
    """As the script leaves them, which may have set some itself."""
    probe(options, Candidate(), request.about.case)
    known = {name: torch_state.current_flag(name) for name in request.names if torch_state.has_flag(name)}
    return asked.Settings({n: asked.Setting(value, installed.variable(n)) for n, value in known.items()})


def code(options: ProgramOptions, request: asked.DigestCode) -> asked.GeneratedCode:
    """Which settings the script's compiles read. The code of a script is known by running it alone."""
    probe(options, request.candidate, request.about.case)
    return asked.GeneratedCode(None, frozenset(reads.unread(request.names)))


def formulas(options: ProgramOptions, request: asked.FindFormulas) -> asked.Formulas:
    probe(options, Candidate())  # lowerings and decompositions of the script's own are there afterwards
    device = "cuda" if torch.cuda.is_initialized() else "cpu"
    return asked.Formulas({decision: formula.source_of(decision, device) for decision in request.ids})
