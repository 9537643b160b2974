"""What a verdict is made of, on the real compiler: runs made again, casts obeyed, what is undefined."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bisector.core.case import WHOLE
from bisector.core.classify import classify
from bisector.core.criterion import Criterion
from bisector.core.evidence import Evidence
from bisector.core.judge import judge
from bisector.core.model import Candidate
from bisector.core.outcome import Outcome
from bisector.core.verdict import Rule, Verdict, VerdictClass
from bisector.inductor import repeats
from bisector.inductor.capture.load import LoadOptions, load
from bisector.inductor.capture.record import Call
from bisector.inductor.evidence import collect
from bisector.inductor.execute import measured, prepare
from bisector.inductor.following.follow import trace
from bisector.inductor.repeats import DISTINCT
from bisector.inductor.undefined import OTHERS, ChangedCalls, UndefinedCalls
from bisector.report.reasons import words

pytestmark = pytest.mark.usefixtures("undisturbed")

RACING = """
from torch._inductor import lowering as L
@torch.library.custom_op("planted::racing", mutates_args=())
def racing(x: torch.Tensor) -> torch.Tensor:
    RUNS.append(1)
    return x.sin() + {off}
racing.register_fake(lambda x: torch.empty_like(x))
L.lowerings[torch.ops.aten.sin.default] = L.fallback_handler(torch.ops.planted.racing.default)
RUNS = []
"""


def call_of(folder: Path, body: str, inputs: str, before: str = "") -> Call:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    script = f"import torch\n{before}\ndef fn(x):\n{lines}\n{inputs}\ntorch.compile(fn)(x)\n"
    (folder / "script.py").write_text(script)
    loaded = load(LoadOptions(str(folder / "script.py")))
    assert loaded.problem is None
    return loaded.recorder.calls[0]


def told(evidence: Evidence) -> Verdict:
    return classify(evidence, Criterion(), False)


@pytest.fixture
def racing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a script registers is taken back. All runs are made, on a slow machine too."""
    from torch._inductor import lowering

    sin = torch.ops.aten.sin.default
    monkeypatch.setitem(lowering.lowerings, sin, lowering.lowerings[sin])
    monkeypatch.setattr(repeats, "RUNNING_S", 60.0)


@pytest.mark.usefixtures("racing")
@pytest.mark.parametrize(("every", "at"), [(20, 7), (3, 1), (10, 0)])
def test_a_program_that_is_off_in_some_of_its_runs_is_told_from_one_that_is_off_in_all(
    tmp_path: Path, every: int, at: int
) -> None:
    off = f"(0.5 if len(RUNS) % {every} == {at} else 0.0)"
    call = call_of(tmp_path, "return x.sin() * 2", "x = torch.rand(8)", RACING.format(off=off))
    evidence = collect(call, WHOLE, None)
    assert evidence.repeated is not None and evidence.repeated.unlike > 0
    found = told(evidence)
    assert found.kind is VerdictClass.NONDETERMINISTIC, words(found.reason)
    assert found.figures["runs"] == evidence.repeated.runs == 64


@pytest.mark.usefixtures("racing")
def test_a_program_that_gives_other_wrong_values_in_each_run_diverges_steadily(tmp_path: Path) -> None:
    racing = RACING.format(off="0.5 * len(RUNS)")
    evidence = collect(call_of(tmp_path, "return x.sin() * 2", "x = torch.rand(8)", racing), WHOLE, None)
    assert evidence.repeated is not None and evidence.repeated.unlike == 63
    found = told(evidence)
    assert (found.kind, found.rule) == (VerdictClass.COMPILED_WORSE, Rule.EVERY_RUN), words(found.reason)


@pytest.mark.usefixtures("racing")
def test_a_run_that_gives_the_first_result_again_is_counted_with_the_first(tmp_path: Path) -> None:
    """However many other results came before it."""
    racing = RACING.format(off="(0.5 * len(RUNS) if 2 <= len(RUNS) <= 11 else 0.0)")
    evidence = collect(call_of(tmp_path, "return x.sin() * 2", "x = torch.rand(8)", racing), WHOLE, None)
    assert evidence.repeated is not None
    assert (evidence.repeated.runs, evidence.repeated.unlike) == (64, 10)
    assert len(evidence.repeated.others) == DISTINCT
    assert "of 64 runs 10 gave other bits than the first, and 54 agree" in words(told(evidence).reason)


def test_a_program_that_is_off_in_all_its_runs_is_steady(tmp_path: Path) -> None:
    body = "return x.half().float() * 3"
    evidence = collect(call_of(tmp_path, body, "torch.manual_seed(0)\nx = torch.rand(64)"), WHOLE, None)
    assert evidence.repeated is not None and evidence.repeated.unlike == 0
    assert evidence.repeated.runs == 64


def test_a_program_that_raises_where_its_operations_are_moved_cannot_be_told(tmp_path: Path) -> None:
    body = "return torch.arange(16.0)[(x * 16).long()]"  # a step upwards is an index out of range
    found = told(collect(call_of(tmp_path, body, "x = torch.full((64,), 1 - 2**-24)"), WHOLE, None))
    assert found.kind is VerdictClass.UNRESOLVED
    moved = "eager fails where each operation is moved by a step of its dtype: Index"
    assert words(found.reason).startswith(moved)


def test_an_input_that_one_of_two_runs_wrote_into_is_compared_with_what_it_was(tmp_path: Path) -> None:
    subject = prepare(call_of(tmp_path, "return x + 1", "x = torch.ones(4)"), WHOLE, None)
    path = f"mutated[{subject.names[0]}]"
    same, other = ({path: torch.full((4,), value)} for value in (1.0, 2.0))
    for eager, compiled in ((same, {}), ({}, same)):
        [unwritten] = measured(subject, eager, compiled).outputs
        assert (unwritten.n_diff, unwritten.alias_mismatch) == (0, None)
    [written] = measured(subject, {}, other).outputs
    assert written.max_abs == 1.0
    [of_other_inputs] = measured(subject, {}, other, args=[torch.full((4,), 2.0)]).outputs
    assert of_other_inputs.n_diff == 0


def test_a_cast_that_is_left_out_is_seen_beside_a_reference_that_obeys_it(tmp_path: Path) -> None:
    body = "return x.half().float() * 3"
    evidence = collect(call_of(tmp_path, body, "torch.manual_seed(0)\nx = torch.rand(64)"), WHOLE, None)
    (obeying,), widest = evidence.default.outputs, evidence.widest
    assert widest is not None
    assert (obeying.rms_error_compiled or 0) > 1e3 * (obeying.rms_error_eager or 0)
    assert (widest.outputs[0].rms_error_eager or 0) > 1e3 * (widest.outputs[0].rms_error_compiled or 0)
    assert told(evidence).kind is VerdictClass.ELIDED_ROUNDING


def test_a_program_without_narrowing_casts_has_one_reference(tmp_path: Path) -> None:
    body = "return (x.double() * 3).sin()"
    assert collect(call_of(tmp_path, body, "x = torch.rand(64)"), WHOLE, None).widest is None


def test_few_elements_are_drawn_again_and_many_are_not(tmp_path: Path) -> None:
    few = collect(call_of(tmp_path, "return (x * 1.1).exp().sum()", "x = torch.rand(4096)"), WHOLE, None)
    assert len(few.redrawn) == 24
    body = "return torch.erf(x * 1.1).exp()"
    many = collect(call_of(tmp_path, body, "torch.manual_seed(0)\nx = torch.randn(4096)"), WHOLE, None)
    assert many.default.outputs[0].n_diff > 16 and not many.redrawn


TWICE = "a write of several values to one place"
WIDE = "torch.linspace(-3e9, 3e9, 64)"


def test_where_the_cast_that_differs_is_undefined_the_class_is_too(tmp_path: Path) -> None:
    call = call_of(tmp_path, "return x.to(torch.int8)", f"x = {WIDE}")
    evidence = collect(call, WHOLE, None)
    assert list(evidence.undefined.values()) == ["a cast of -3e+09 to int8"]
    answer = trace(call, WHOLE, Candidate(), None, ())
    assert judge(answer.measurement, Criterion()).outcome is Outcome.FAIL
    assert classify(evidence, Criterion(), False, answer.trace).kind is VerdictClass.UNDEFINED


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (f"{WIDE}.to(torch.int8)", "a cast of -3e+09 to int8"),
        ("torch.tensor([float('nan')]).int()", "a cast of nan to int32"),
        ("torch.tensor([127.9, -128.9]).to(torch.int8)", None),
        ("torch.tensor([300]).to(torch.int8)", None),  # of integers the low bits are kept
        (f"{WIDE}.bool()", None),
        ("torch.tensor([1, 2]) << 64", "a shift of int64 by 64 bits"),
        ("torch.tensor([1, 2]) >> -1", "a shift of int64 by -1 bits"),
        ("torch.tensor([1, 2], dtype=torch.int32) << 31", None),
        ("torch.empty(3)", "memory that nothing was written to"),
        ("torch.empty(0)", None),
        ("torch.zeros(3)", None),
        ("torch.zeros(3).scatter(0, torch.tensor([1, 1]), torch.ones(2))", TWICE),
        ("torch.zeros(3).scatter(0, torch.tensor([1, 2]), torch.ones(2))", None),
        ("torch.zeros(3).index_put((torch.tensor([0, 0]),), torch.ones(2))", TWICE),
        ("torch.zeros(3).index_put((torch.tensor([0, 0]),), torch.ones(2), accumulate=True)", None),
        ("torch.tensor([2, 1, 2]).sort().indices", "an order of equal elements"),
        ("torch.tensor([2, 1, 2]).sort(stable=True).indices", None),
        ("torch.tensor([3, 1, 2]).argsort()", None),
        ("torch.tensor([2, 1, 2]).topk(1).indices", "an order of equal elements"),
    ],
)
def test_what_torch_leaves_undefined_is_told_from_what_it_does_not(code: str, reason: str | None) -> None:
    made = eval(f"lambda: {code}", {"torch": torch})
    with UndefinedCalls() as calls:
        made()
    assert calls.reason == reason


@pytest.mark.parametrize(
    ("body", "covered"),
    [
        ("return (x.to(torch.int8) > 3) | (x < 0)", True),
        ("return x.to(torch.int8).float() + torch.erf(x / 1e9)", True),
        # Of these elements all differ, those too that come of no undefined value.
        ("return torch.cat([x.to(torch.int8).float(), torch.erf(x / 1e9).repeat(64)])", False),
    ],
)
def test_what_differs_is_undefined_where_all_of_it_depends_on_a_value_that_is(
    tmp_path: Path, body: str, covered: bool
) -> None:
    evidence = collect(call_of(tmp_path, body, f"x = {WIDE}"), WHOLE, None)
    assert evidence.undefined and (evidence.undefined_paths == ("output[0]",)) is covered
    assert (told(evidence).kind is VerdictClass.UNDEFINED) is covered


def test_memory_that_is_written_before_it_is_read_is_not_undefined(tmp_path: Path) -> None:
    body = "y = torch.empty_like(x)\ny[:] = x\nreturn torch.erf(y / 1e9)"
    call = call_of(tmp_path, body, f"x = {WIDE}.repeat(9)")
    evidence = collect(call, WHOLE, None)
    assert evidence.default.outputs[0].n_diff and not evidence.undefined
    found = trace(call, WHOLE, Candidate(), None, ()).trace
    assert [n.op for n in found.nodes if n.arises] == ["aten.erf"]


@pytest.mark.parametrize(
    ("code", "undefined"),
    [
        ("torch.cat([torch.empty(2) * 0, torch.ones(2)])", [0, 1]),
        ("torch.tensor([1e9, 3.0, float('nan')]).to(torch.int8)", [0, 2]),
        ("(torch.tensor([1, 2]) << torch.tensor([64, 1])) * 2", [0]),
        ("torch.zeros(2, dtype=torch.int8).copy_(torch.tensor([1.0, 1e9]))", [1]),
    ],
)
def test_other_values_are_put_where_a_value_is_undefined_and_nowhere_else(
    code: str, undefined: list[int]
) -> None:
    made = eval(f"lambda: {code}", {"torch": torch})
    turns = []
    for turn in range(OTHERS):
        with ChangedCalls(turn):
            turns.append(made().double().nan_to_num(-7.0))
    apart = [i for i in range(len(turns[0])) if any(turn[i] != turns[0][i] for turn in turns)]
    assert apart == undefined


BUMP = """
@torch.library.custom_op("numbisect_tests::{name}", mutates_args={mutates})
def bump(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x.clone()

bump.register_fake(lambda x: torch.empty_like(x))
"""


@pytest.mark.parametrize(("name", "mutates"), [("bump_undeclared", ()), ("bump_declared", ("x",))])
def test_an_operator_that_writes_into_what_it_says_it_reads_is_named(
    tmp_path: Path, name: str, mutates: tuple[str, ...]
) -> None:
    body = "y = x * 2\nz = bump(y)\nreturn y + z"
    call = call_of(tmp_path, body, "x = torch.ones(8)", BUMP.format(name=name, mutates=mutates))
    found = told(collect(call, WHOLE, None))
    if mutates:
        assert found.kind is VerdictClass.AGREES, words(found.reason)
        return
    assert (found.kind, found.rule) == (VerdictClass.UNDEFINED, Rule.DECLARATION)
    assert words(found.reason).startswith("the operator numbisect_tests.bump_undeclared writes into `x`")


def test_an_undeclared_write_that_nothing_reads_excuses_nothing(tmp_path: Path) -> None:
    bug = "import torch._inductor.config as c; c.cpp.inject_relu_bug_TESTING_ONLY = 'accuracy'\n"
    body = "z = bump(x * 2)\nreturn torch.relu(z) * 3"
    call = call_of(tmp_path, body, "x = torch.ones(8)", bug + BUMP.format(name="bump_unread", mutates=()))
    found = told(collect(call, WHOLE, None))
    assert found.kind is VerdictClass.COMPILED_WORSE, words(found.reason)


FLIP = """
@torch.library.custom_op("numbisect_tests::{name}", mutates_args=())
def flip(x: torch.Tensor) -> torch.Tensor:
    return {gives}

flip.register_fake(lambda x: x.new_empty(x.shape))
"""


@pytest.mark.parametrize(
    ("name", "gives", "real"),
    [
        ("flip_strides", "x.t().contiguous().t() * 2", "float32[6, 4] with strides [1, 6]"),
        ("flip_dtype", "(x * 2).double()", "float64[6, 4] with strides [4, 1]"),
        ("flip_right", "x * 2", None),
    ],
)
def test_an_operator_whose_fake_kernel_describes_another_layout_is_named(
    tmp_path: Path, name: str, gives: str, real: str | None
) -> None:
    call = call_of(
        tmp_path, "return flip(x) + x", "x = torch.randn(6, 4)", FLIP.format(name=name, gives=gives)
    )
    found = told(collect(call, WHOLE, None))
    if real is None:
        assert found.kind is VerdictClass.AGREES, words(found.reason)
        return
    assert (found.kind, found.rule) == (VerdictClass.UNDEFINED, Rule.DECLARATION), words(found.reason)
    assert words(found.reason) == (
        f"the operator numbisect_tests.{name} gives {real}, which its fake kernel describes as float32[6, 4] "
        "with strides [4, 1]: mend that kernel (`register_fake`)"
    )


WITHIN = """
class Within(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return flip(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2
"""


@pytest.mark.parametrize(
    ("name", "body", "inputs"),
    [
        ("flip_in_function", "return Within.apply(x)", "x = torch.randn(6, 4, requires_grad=True)"),
        ("flip_in_branch", "return torch.cond(x.sum() < 99, flip, torch.sin, (x,))", "x = torch.ones(6, 4)"),
    ],
)
def test_such_an_operator_is_named_within_a_function_of_its_own_and_a_branch(
    tmp_path: Path, name: str, body: str, inputs: str
) -> None:
    given = FLIP.format(name=name, gives="x.t().contiguous().t() * 2 + x.stride(0)") + WITHIN
    found = told(collect(call_of(tmp_path, body, inputs, given), WHOLE, None))
    assert (found.kind, found.rule) == (VerdictClass.UNDEFINED, Rule.DECLARATION), words(found.reason)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return torch.rand(64, 256, dtype=torch.bfloat16) + x", VerdictClass.UNRESOLVED),  # gives 1.0
        ("return torch.rand(64, 256) + x", VerdictClass.RANDOM),
        ("return torch.nn.functional.dropout(torch.randn(64, 256), 0.5) + x", VerdictClass.RANDOM),
    ],
)
def test_random_numbers_that_eager_never_draws_are_not_another_stream(
    tmp_path: Path, body: str, expected: VerdictClass
) -> None:
    found = told(collect(call_of(tmp_path, body, "x = torch.zeros(1)"), WHOLE, None))
    assert found.kind is expected, words(found.reason)


@pytest.mark.parametrize(
    "body",
    [
        "return x.half().bfloat16().float()",  # a pattern pass replaces one of the two casts
        "return x - x.half().float(), x.view(torch.int32)",  # there is no float64 run
    ],
)
def test_casts_are_executed_and_left_out_whatever_takes_them_away(
    body: str, tmp_path: Path, compiler: None
) -> None:
    evidence = collect(call_of(tmp_path, body, "torch.manual_seed(0)\nx = torch.randn(64)"), WHOLE, None)
    assert evidence.default.outputs[0].n_diff > 0
    for measurement in (evidence.executed, evidence.left_out):
        assert measurement is not None
        assert measurement.outputs[0].n_diff == 0
