"""Simpler input values, found on the real compiler with one compile of each candidate."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisector.core.case import WHOLE, Case
from bisector.core.criterion import Criterion
from bisector.core.decision import DecisionId
from bisector.core.model import Candidate, DivergenceKind, Signature
from bisector.core.outcome import Outcome
from bisector.inductor import execute, hooks, probing
from bisector.inductor.capture.load import LoadOptions, load
from bisector.inductor.capture.record import Call
from bisector.inductor.simplify import Wanted, simplify

pytestmark = pytest.mark.usefixtures("undisturbed")

FAIL, PASS = Outcome.FAIL, Outcome.PASS
DIVERGES = tuple(Signature(path, DivergenceKind.VALUE) for path in ("output[0]", "grad[l_x_]"))
# The backend leaves the cast out: values of few bits are the same with it and without.
ROUND_TRIP = "def fn(x, y):\n    return x.half().float() + y\n"
INPUTS = "x = torch.rand(4, generator=torch.Generator().manual_seed(3))\ntorch.compile(fn)(x, x + 1)\n"
CAST = Candidate.deny([DecisionId.of("cast", "float16", "half")])
SIMPLER = {"l_x_": ("zeros", "ones", "integers", "digits:1"), "l_y_": ("zeros", "ones")}


def call_of(folder: Path, script: str) -> Call:
    (folder / "script.py").write_text(f"import torch\n{script}")
    loaded = load(LoadOptions(str(folder / "script.py")))
    assert loaded.problem is None
    return loaded.recorder.calls[0]


def wanted(*candidates: tuple[Candidate, Outcome]) -> Wanted:
    return Wanted(candidates, Criterion(), DIVERGES)


def test_each_input_has_the_first_values_on_which_every_candidate_gives_what_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks.install()
    call = call_of(tmp_path, ROUND_TRIP + INPUTS)
    compiles: list[Candidate] = []
    compile_subject = execute.compile_subject

    def counted(subject: execute.Subject, candidate: Candidate) -> object:
        compiles.append(candidate)
        return compile_subject(subject, candidate)

    monkeypatch.setattr(execute, "compile_subject", counted)
    found = simplify(call, WHOLE, wanted((Candidate(), FAIL), (CAST, PASS)), SIMPLER, None)
    assert found == Case(values=(("l_x_", "digits:1"), ("l_y_", "zeros")))
    assert compiles == [Candidate(), CAST]
    monkeypatch.undo()
    assert probing.probe(call, found, Candidate(), None).outputs[0].n_diff > 0
    assert probing.probe(call, found, CAST, None).outputs[0].n_diff == 0


def test_where_no_simpler_values_hold_the_case_stays_as_it_is(tmp_path: Path) -> None:
    call = call_of(tmp_path, ROUND_TRIP + INPUTS)
    whole_numbers = {"l_x_": ("zeros", "ones", "integers")}
    assert simplify(call, WHOLE, wanted((Candidate(), FAIL)), whole_numbers, None) == WHOLE


def test_values_that_the_program_cannot_take_are_no_simpler_ones(tmp_path: Path) -> None:
    indexed = "def fn(x, i):\n    return x.half().float()[i] * 3\n"
    inputs = "x = torch.arange(8) / 7 * 10\ntorch.compile(fn)(x, torch.arange(8))\n"
    call = call_of(tmp_path, indexed + inputs)
    found = simplify(call, WHOLE, wanted((Candidate(), FAIL)), {"l_i_": ("same:99", "same:5")}, None)
    assert found == Case(values=(("l_i_", "same:5"),))


def test_the_gradient_of_a_training_step_is_held_to_too(tmp_path: Path) -> None:
    step = "x = torch.rand(4, generator=torch.Generator().manual_seed(3)).requires_grad_()\n"
    script = "def fn(x, y):\n    return (x.half().float() * y).sum()\n"
    call = call_of(tmp_path, script + step + "torch.compile(fn)(x, torch.ones(4) / 3).backward()\n")
    found = simplify(call, WHOLE, wanted((Candidate(), FAIL)), {"l_x_": ("zeros", "digits:1")}, None)
    assert found == Case(values=(("l_x_", "zeros"),)), "its gradient differs there too"
