"""A repro stands alone: it shows the divergence, its fix repairs it, and it never takes a failure for one."""

from __future__ import annotations

import builtins
import operator
import os
import subprocess
import symtable
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from bisector.core.criterion import Criterion
from bisector.core.decision import DecisionId
from bisector.core.fix import DisablePasses, FallBack, SetFlags, UseBackend
from bisector.inductor.graph.repro_spec import ReproSpec
from bisector.inductor.graph.settings_source import check_fix, setting_statements
from bisector.inductor.graph.values import CannotWrite
from bisector.inductor.write_scripts import comparison, write_repro

from .test_source import capture

CONTRACT = "inductor.cpp.enable_floating_point_contract_flag"
# What the file sets before it imports torch, which is imported already where it runs.
EARLY = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, warm: str) -> Run:
    """Runs the text of a repro by a Python that has torch imported, from a folder that is not its own."""
    folder, elsewhere = (tmp_path_factory.mktemp(name) for name in ("repro", "elsewhere"))

    def run(text: str, *flags: str) -> subprocess.CompletedProcess[str]:
        assert all(f'{name}="{value}"' in text for name, value in EARLY.items())
        file = folder / "repro.py"
        file.write_text(text, encoding="utf-8")
        command = [warm, str(file), *flags]
        return subprocess.run(
            command, cwd=elsewhere, env={**os.environ, **EARLY}, capture_output=True, text=True, timeout=300
        )

    return run


def spec(function: Callable[..., Any], *args: Any, tolerances: Any = ((0.0, 0.0),), **more: Any) -> ReproSpec:
    gm, inputs = capture(function, *args)
    return ReproSpec(gm, inputs, tolerances, **more)


def shifted_exp_sum(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    top = (x * scale).amax(-1, keepdim=True)
    return torch.exp(x * scale - top).sum(-1)


def contraction(**more: Any) -> ReproSpec:
    torch.manual_seed(0)
    x, scale = torch.randn(2, 8) * 1e4, torch.rand(1) * 1e4
    more.setdefault("settings", {CONTRACT: "fast"})
    return spec(shifted_exp_sum, x, scale, **{"tolerances": [(1.3e-6, 1e-5)], **more})


def gradient() -> ReproSpec:
    """A gradient that is exact only without its decomposition; the output agrees within its tolerance."""
    torch.manual_seed(0)
    return spec(
        lambda x: torch.nn.functional.silu(x),
        torch.randn(8, 8, requires_grad=True),
        tolerances=[(1.3e-6, 1e-5)],
        grad_outputs=[torch.ones(8, 8)],
        grad_tolerances=[(0.0, 0.0)],
        fix=FallBack(("aten.silu_backward",), decomposed=True),
    )


@pytest.mark.live
def test_the_file_shows_the_divergence_and_its_fix_repairs_it(run: Run) -> None:
    text = write_repro(contraction(fix=SetFlags({CONTRACT: "off"}), header=["Contraction in exp(a*b - max)"]))
    plain, fixed = run(text), run(text, "--fixed")
    assert (plain.returncode, fixed.returncode) == (1, 0), plain.stderr + fixed.stderr
    assert "Mismatched elements: 2 / 2 (100.0%)\n" in plain.stdout
    assert "\neager (tensor([1., 1.]),)\ncompiled (tensor(" in plain.stdout
    assert fixed.stdout == "compiled agrees with eager\n"


def test_the_file_is_plain_torch_and_reads_from_the_top() -> None:
    text = write_repro(contraction(header=["Contraction in exp(a*b - max)"]))
    order = ["# Contraction in", "import torch\n", "def fn(x, scale):", "def inputs():", '_flag", "fast")',
             "def test_compiled_agrees_with_eager():", "assert_close(", "if __name__ =="]  # fmt: skip
    places = [text.rindex(piece) for piece in order]
    assert places == sorted(places)
    imported = {
        line.split()[1].split(".")[0] for line in text.splitlines() if line.startswith(("import ", "from "))
    }
    assert imported - {"torch"} <= set(sys.stdlib_module_names)
    assert max(map(len, text.splitlines())) <= 110
    code = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    # Seven lines before the function: four of imports, and three for Python alone against caches and
    # exceptions. A class, a decorator and nine lines of test; five lines make an exit status of it.
    begun = code.index("def fn(x, scale):"), code.index("class Differs(AssertionError): ...")
    assert (begun[0], len(code) - begun[1]) == (7, 16)


@pytest.mark.live
def test_gradients_are_compared_and_a_decomposition_can_be_left_out(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "1")  # Inductor then refuses some fallbacks that it makes by itself
    text = write_repro(gradient())
    plain, fixed = run(text), run(text, "--fixed")
    assert (plain.returncode, fixed.returncode) == (1, 0), (
        plain.stdout + plain.stderr + fixed.stdout + fixed.stderr
    )
    assert plain.stdout.startswith("gradient of x: Tensor-likes are not equal!")


class Normalized(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 8, 3, bias=False)
        self.norm = torch.nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x)).relu()


@pytest.mark.live
def test_one_module_holds_what_it_owned_and_the_constants_of_the_graph(run: Run) -> None:
    class Constant(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("shift", torch.tensor([0.1, 0.2]))

        def forward(self, x: torch.Tensor, weight: torch.nn.Parameter) -> tuple[torch.Tensor]:
            return (x @ weight + self.shift,)

    gm = torch.fx.symbolic_trace(Constant())
    weight = torch.nn.Parameter(torch.tensor([[0.1, 0.2], [0.3, 0.4]]))
    settings = {"inductor.freezing": True}
    with torch.no_grad():
        inputs, tolerances = [torch.ones(3, 2), weight], [(1e-5, 1e-5)]
        text = write_repro(ReproSpec(gm, inputs, tolerances, settings=settings, grad_enabled=False))
    assert text.count("class Model(") == 1
    assert 'self.register_buffer("SHIFT", SHIFT)' in text
    result = run(text)
    assert result.returncode == 0, result.stdout + result.stderr


def store_sum(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    x[:, 0] = shifted_exp_sum(x, scale)
    return scale + 1


@pytest.mark.live
def test_an_input_changed_in_place_is_compared_and_a_lowering_can_fall_back(run: Run) -> None:
    torch.manual_seed(0)
    x, scale = torch.randn(2, 8) * 1e4, torch.rand(1) * 1e4
    exact = (0.0, 0.0)
    text = write_repro(
        spec(
            store_sum,
            x,
            scale,
            tolerances=[exact],
            input_tolerances=[exact, exact],
            settings={CONTRACT: "fast"},
            fix=FallBack(("aten.mul",)),
        )
    )
    plain, fixed = run(text), run(text, "--fixed")
    assert (plain.returncode, fixed.returncode) == (1, 0), (
        plain.stdout + plain.stderr + fixed.stdout + fixed.stderr
    )
    assert "Mismatched elements: " in plain.stdout


@pytest.mark.live  # test_repro_in_pytest asks the same of it
def test_the_sign_of_a_zero_counts_where_asked_and_a_pass_can_be_disabled(run: Run) -> None:
    text = write_repro(
        spec(
            lambda x: torch.ceil(x) + torch.zeros_like(x),
            torch.tensor([-0.5, 0.5]),
            signed_zero=True,
            fix=DisablePasses(("remove_noop_ops", "constant_fold_uniform_value")),
        )
    )
    plain, fixed = run(text), run(text, "--fixed")
    assert (plain.returncode, fixed.returncode) == (1, 0), (
        plain.stdout + plain.stderr + fixed.stdout + fixed.stderr
    )
    assert "eager (tensor([0., 1.]),)\ncompiled " in plain.stdout


def test_a_failure_to_compile_is_not_a_divergence(run: Run) -> None:
    result = run(write_repro(contraction(compile_kwargs={"backend": "no_such_backend"})))
    assert result.returncode == 125
    assert result.stderr == ""
    assert result.stdout.startswith("cannot tell: InvalidBackend: ")


def test_a_fix_may_be_another_backend() -> None:
    text = write_repro(contraction(fix=UseBackend("aot_eager"), compile_kwargs={"dynamic": False}))
    chosen = 'backend="aot_eager" if "--fixed" in sys.argv else "inductor"'
    assert f"torch.compile(fn, dynamic=False, {chosen})" in text


def test_the_modes_of_the_call_are_in_the_file() -> None:
    text = write_repro(
        contraction(
            grad_enabled=False, autocast=[("cpu", torch.bfloat16)], seed=3, num_threads=1,
            default_dtype=torch.float64,
        )
    )  # fmt: skip
    for piece in (
        "@torch.no_grad()\n",
        '    with torch.autocast("cpu", dtype=torch.bfloat16):\n        return function(*inputs())',
        "    torch.manual_seed(3)\n",
        "torch.set_num_threads(1)\n",
        "torch.set_default_dtype(torch.float64)\n",
        "torch.tensor([6976.676], dtype=torch.float32)",
    ):
        assert piece in text


def test_frozen_weights_live_on_a_module() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).eval()
    with torch.no_grad():
        text = write_repro(
            spec(layer, torch.ones(3, 2), settings={"inductor.freezing": True}, grad_enabled=False)
        )
    assert "= torch.nn.Parameter(" in text
    assert "self.register_buffer(" in text
    ran = "run(lambda model: model), run(lambda model: torch.compile(model))"
    assert f"\n    expected, actual = {ran}\n" in text


def test_no_name_of_the_function_is_one_of_the_file() -> None:
    graph = torch.fx.Graph()
    values = [graph.placeholder("unpack")]
    for name in ("run_1", "expected", "actual", "inputs_2", "os", "COMPARED", "sys", "F", "nan", "id_3"):
        values.append(graph.create_node("call_function", torch.neg, (values[-1],), name=name))
    graph.output((values[-1],))
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    text = write_repro(ReproSpec(gm, [torch.randn(20, 20)], [(0.0, 0.0)]))
    file = symtable.symtable(text, "repro.py", "exec")
    (function,) = (table for table in file.get_children() if table.get_name() == "fn")
    assert len(function.get_symbols()) == 12  # torch too
    local = {symbol.get_name() for symbol in function.get_symbols() if symbol.is_local()}
    assert local & {*file.get_identifiers(), *dir(builtins)} == set()


def test_a_decision_of_the_header_is_found_in_the_function() -> None:
    graph = torch.fx.Graph()
    mul = graph.create_node("call_function", operator.mul, (graph.placeholder("l_x_"), 2.0), name="mul_7")
    graph.output((mul,))
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    text = write_repro(ReproSpec(gm, [torch.ones(2)], [(0.0, 0.0)], decisions=[DecisionId("fma:sub@mul_7")]))
    assert "def fn(x):\n    mul = x * 2.0  # mul_7\n    return (mul,)\n" in text


def test_a_long_input_stands_after_what_is_read() -> None:
    text = write_repro(spec(lambda x: x + 1, torch.randn(20, 20)))
    assert text.index("def inputs():") < text.index("def unpack(") < text.index('X_DATA = """')
    assert text.index("expected, actual = ") < text.index('X_DATA = """') < text.rindex("if __name__ ==")
    assert "import base64\nimport zlib\n" in text


def test_two_blobs_of_one_name_are_refused_and_a_constants_blob_has_its_own() -> None:
    class Holder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("x", torch.randn(20, 20))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
            return (x + self.x,)

    gm = torch.fx.symbolic_trace(Holder())
    text = write_repro(ReproSpec(gm, [torch.randn(20, 20)], [(0.0, 0.0)]))
    assert "\nX = unpack(X_CONSTANT_DATA, torch.float32, (20, 20))" in text
    assert "    x = unpack(X_DATA, torch.float32, (20, 20))" in text
    gm.graph.find_nodes(op="placeholder")[0].name = "x_constant"
    with pytest.raises(CannotWrite, match="both be called X_CONSTANT_DATA"):
        write_repro(ReproSpec(gm, [torch.randn(20, 20)], [(0.0, 0.0)]))


def test_tolerances_must_match_what_is_compared() -> None:
    with pytest.raises(CannotWrite, match="0 tolerances for 1 gradients"):
        write_repro(spec(torch.sin, torch.ones(2, requires_grad=True), grad_outputs=[torch.ones(2)]))
    with pytest.raises(CannotWrite, match="2 tolerances for 1 outputs"):
        write_repro(spec(torch.sin, torch.ones(2), tolerances=[(0.0, 0.0)] * 2))


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("eager", "compiled", "within", "status"),
    [
        ([1.0, NAN, INF], [1.0, NAN, INF], (0.0, 0.0), 0),
        ([1.0], [1.5], (0.5, 0.0), 0),
        ([1.0, 2.0], [1.0, 4.0], (0.0, 1.0), 1),
        ([INF], [3.0], (1.0, 1.0), 1),
        ([NAN], [0.0], (1.0, 1.0), 1),
        ([2**62], [2**62 + 1], (0.0, 0.0), 1),
        ([True], [False], (0.0, 0.0), 1),
        ([1 + 1j], [1 - 1j], (0.0, 0.0), 1),
        ([1.0], [1], (9.0, 9.0), 1),
        ([0.0, 0.0], [[0.0, 0.0]], (9.0, 9.0), 1),
        ([0.0], [-0.0], (0.0, 0.0), 0),
    ],
)
def test_the_comparison_in_the_file_is_the_contracts(
    eager: Any, compiled: Any, within: tuple[float, float], status: int
) -> None:
    assert compared(contraction(tolerances=[within]), eager, compiled) == status


def test_signed_zeros_differ_only_where_asked() -> None:
    strict = contraction(signed_zero=True)
    assert compared(strict, [0.0, 1.0], [-0.0, 1.0]) == 1
    assert compared(strict, [0.0, -0.0], [0.0, -0.0]) == 0


@pytest.mark.parametrize(
    ("criterion", "close", "far"),
    [
        (Criterion(max_ulp=2), [1.0, 1.0 + 2**-22], [1.0, 1.0 + 2**-21]),
        (Criterion(cosine=0.99), [1.0, 1.1], [1.0, -1.0]),
    ],
    ids=["ulp", "cosine"],
)
def test_another_measure_is_held_against_each_output(
    criterion: Criterion, close: list[float], far: list[float]
) -> None:
    asked = contraction(assertion=criterion.assertion())
    text = write_repro(asked)
    assert "COMPARED" not in text
    assert max(map(len, text.splitlines())) <= 110
    assert (compared(asked, [1.0, 1.0], close), compared(asked, [1.0, 1.0], far)) == (0, 1)


def compared(asked: ReproSpec, eager: Any, compiled: Any) -> int:
    """0 where the file's comparison passes what its two runs gave, 1 where it does not."""
    names = {"torch": torch, "expected": (torch.tensor(eager),), "actual": (torch.tensor(compiled),)}
    try:
        exec("\n".join(comparison(asked)), names)
    except AssertionError:
        return 1
    return 0


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("inductor.cpp.simdlen", 1, "torch._inductor.config.cpp.simdlen = 1"),
        ("functorch.cse", False, "torch._functorch.config.cse = False"),
        ("dynamo.cache_size_limit", 4, "torch._dynamo.config.cache_size_limit = 4"),
        ("backends.cuda.matmul.allow_tf32", True, "torch.backends.cuda.matmul.allow_tf32 = True"),
        ("torch.set_float32_matmul_precision", "high", 'torch.set_float32_matmul_precision("high")'),
    ],
)
def test_a_flag_becomes_one_statement(name: str, value: Any, line: str) -> None:
    assert setting_statements({name: value}).lines == (line,)


def test_an_environment_variable_is_set_before_torch_is_imported() -> None:
    text = write_repro(contraction(settings={"env.A": 1}, fix=SetFlags({"env.A": 2})))
    assert (
        text.index('os.environ["A"] = "1"')
        < text.index('os.environ["A"] = "2"')
        < text.index("import torch\n")
    )


@pytest.mark.parametrize("name", ["inductor.no_such_flag", "nowhere.flag", "inductor.x = 1; y"])
def test_an_unknown_flag_is_refused(name: str) -> None:
    with pytest.raises(CannotWrite, match=name.split("=")[0]):
        setting_statements({name: 1})


def test_an_unknown_op_is_refused() -> None:
    with pytest.raises(CannotWrite, match="no_such_op"):
        check_fix(FallBack(("aten.no_such_op",)))


def test_nothing_of_the_project_is_needed() -> None:
    text = write_repro(contraction())
    assert "bisector" not in text and "numbisect" not in text
