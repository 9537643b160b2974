"""Other input values, found on the real compiler: a difference in the last bit is brought to a step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from torch._inductor.codegen.cpp import CppVecOverrides

from bisector.core.case import WHOLE, Case, Slice
from bisector.core.model import Candidate
from bisector.core.outcome import Outcome
from bisector.inductor import probing
from bisector.inductor.capture.load import LoadOptions, load
from bisector.inductor.capture.record import Call
from bisector.inductor.steer import Moved, steer

pytestmark = pytest.mark.usefixtures("undisturbed")

FAIL, PASS = Outcome.FAIL, Outcome.PASS
EXACT: Mapping[str, tuple[float, float]] = {}
SCALAR = Candidate.with_flags({"inductor.cpp.simdlen": 1})

# Of these few elements none is near a step.
STEPS = "def fn(x):\n    return torch.ceil(torch.sqrt(x) * 8)\n"
NO_STEPS = "def fn(x):\n    return torch.erf(x) * 8\n"
INPUT = "x = torch.linspace(0.1, 0.4, 64)\ntorch.compile(fn)(x)\n"


def call_of(folder: Path, script: str) -> Call:
    (folder / "script.py").write_text(f"import torch\n{script}")
    loaded = load(LoadOptions(str(folder / "script.py")))
    assert loaded.problem is None
    return loaded.recorder.calls[0]


def differing(call: Call, case: Case, candidate: Candidate) -> int:
    measured = probing.probe(call, case, candidate, None)
    assert measured.error is None
    return sum(output.n_diff for output in measured.outputs)


@pytest.fixture
def another_last_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vectorized square root that is off in its last bit, whatever the processor."""

    def sqrt(x: object) -> str:
        return f"({x}.sqrt() * at::vec::Vectorized<float>(1.0000001f))"

    monkeypatch.setattr(CppVecOverrides, "sqrt", staticmethod(sqrt))


@pytest.mark.usefixtures("another_last_bit")
def test_a_last_bit_difference_is_brought_to_a_step_and_shows_there(tmp_path: Path) -> None:
    call = call_of(tmp_path, STEPS + INPUT)
    few = WHOLE.with_slice(Slice("l_x_", 0, 8, 16))
    assert differing(call, few, Candidate()) == 0
    found = steer(call, few, [(Candidate(), FAIL), (SCALAR, PASS)], dict(EXACT), None)
    assert found is not None
    assert found.input == "l_x_" and 1 <= found.factor <= 2 and found.seed is None
    moved = found.case(few)
    assert differing(call, moved, Candidate()) > 0
    assert differing(call, moved, SCALAR) == 0


def test_a_program_without_steps_has_no_such_values(tmp_path: Path) -> None:
    call = call_of(tmp_path, NO_STEPS + INPUT)
    assert steer(call, WHOLE, [(Candidate(), FAIL)], {"float32": (0.1, 0.1)}, None) is None


@pytest.mark.usefixtures("compiler")
def test_a_cancellation_shows_the_last_bit_once_its_terms_are_large(tmp_path: Path) -> None:
    script = "def fn(x, w):\n    return torch.erf(x) @ w\n"
    inputs = "torch.manual_seed(0)\ntorch.compile(fn)(torch.rand(8, 16), torch.randn(16, 32))\n"
    call = call_of(tmp_path, script + inputs)
    kernel = Candidate.deny({"lower:aten.erf@erf"})
    wanted, usual = [(Candidate(), FAIL), (kernel, PASS)], {"float32": (1.3e-6, 1e-5)}
    assert steer(call, WHOLE, wanted, usual, None) is None
    found = steer(call, WHOLE, wanted, usual, None, (2.0**16,))
    assert found == Moved("l_w_", 2.0**16)


@pytest.mark.usefixtures("compiler")
def test_where_no_term_cancels_other_numbers_are_drawn_in_which_one_does(tmp_path: Path) -> None:
    script = "def fn(x, w):\n    return torch.erf(x) @ w\n"
    inputs = "torch.compile(fn)(torch.linspace(0.1, 0.9, 128).view(4, 32), torch.ones(32, 8))\n"
    call = call_of(tmp_path, script + inputs)
    kernel = Candidate.deny({"lower:aten.erf@erf"})
    wanted, usual = [(Candidate(), FAIL), (kernel, PASS)], {"float32": (1.3e-6, 1e-5)}
    found = steer(call, WHOLE, wanted, usual, None, (2.0**16,))
    assert found is not None and found.seed is not None
    drawn = found.case(WHOLE)
    rtol, atol = usual["float32"]

    def differs(candidate: Candidate) -> bool:
        measured = probing.probe(call, drawn, candidate, None).outputs[0]
        return measured.max_abs > atol and measured.max_rel > rtol

    assert (differs(Candidate()), differs(kernel)) == (True, False)


def test_one_program_cannot_both_agree_and_not(tmp_path: Path) -> None:
    call = call_of(tmp_path, STEPS + INPUT)
    wanted = [(Candidate(), FAIL), (Candidate.deny({"vec:cos@gone"}), PASS)]
    assert steer(call, WHOLE, wanted, dict(EXACT), None) is None


def test_gradients_are_left_alone(tmp_path: Path) -> None:
    call = call_of(tmp_path, STEPS + INPUT.replace("64)", "64).requires_grad_()"))
    assert steer(call, WHOLE, [(Candidate(), FAIL)], dict(EXACT), True) is None


@pytest.mark.usefixtures("another_last_bit")
def test_the_search_ends_once_its_runs_have_done_what_work_they_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, few = call_of(tmp_path, STEPS + INPUT), WHOLE.with_slice(Slice("l_x_", 0, 8, 16))
    wanted = [(Candidate(), FAIL), (SCALAR, PASS)]
    assert steer(call, few, wanted, dict(EXACT), None) is not None
    monkeypatch.setattr("bisector.inductor.steer.MOST_WORK", 100)
    assert steer(call, few, wanted, dict(EXACT), None) is None
