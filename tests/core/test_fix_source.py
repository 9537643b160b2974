"""A fix as lines of plain torch: to paste, and to run in a repro."""

from __future__ import annotations

import ast

import pytest

from bisector.core.decision import DecisionId
from bisector.core.fix import PASSES, DisablePasses, FallBack, PlainFix, SetFlags, UseBackend
from bisector.core.fix_source import PER_GRAPH, by_name, compile_arguments, paste_lines, statements

OVERRIDE = "TORCH_COMPILE_OVERRIDE_INDUCTOR_CONFIGS"
VARIABLES = {
    "inductor.emulate_precision_casts": "TORCHINDUCTOR_EMULATE_PRECISION_CASTS",
    PASSES: "TORCHINDUCTOR_DISABLED_PASSES",
    PER_GRAPH: OVERRIDE,
}


@pytest.mark.parametrize(
    ("fix", "lines"),
    [
        (
            SetFlags({"inductor.emulate_precision_casts": True}),
            [
                "torch._inductor.config.emulate_precision_casts = True",
                'options = {"emulate_precision_casts": True}  # torch.compile(..., options=options)',
                'patch = torch._inductor.config.patch({"emulate_precision_casts": True})'
                "  # with patch: the first call",
                f"export {OVERRIDE}='>=0:emulate_precision_casts=True'",
                "export TORCHINDUCTOR_EMULATE_PRECISION_CASTS=1",
            ],
        ),
        (
            SetFlags({"inductor.a": 1, "inductor.b": None}),
            [
                "torch._inductor.config.a = 1; torch._inductor.config.b = None",
                'options = {"a": 1, "b": None}  # torch.compile(..., options=options)',
                'patch = torch._inductor.config.patch({"a": 1, "b": None})  # with patch: the first call',
                f"export {OVERRIDE}='>=0:a=1,b=None'",
            ],
        ),
        (
            SetFlags({"functorch.cse": False}),
            ["import torch._functorch.config; torch._functorch.config.cse = False"],
        ),
        (
            SetFlags({"backends.cuda.matmul.allow_tf32": False}),
            ["torch.backends.cuda.matmul.allow_tf32 = False"],
        ),
        (SetFlags({"env.ATEN_CPU_CAPABILITY": "avx2"}), ["export ATEN_CPU_CAPABILITY=avx2"]),
        (SetFlags({"env.A": "x y"}), ["export A='x y'"]),
        (
            DisablePasses(("remove_noop_ops", "reinplace")),
            [
                'torch._inductor.config.disabled_passes = "remove_noop_ops,reinplace"',
                'options = {"disabled_passes": "remove_noop_ops,reinplace"}'
                "  # torch.compile(..., options=options)",
                'patch = torch._inductor.config.patch({"disabled_passes": "remove_noop_ops,reinplace"})'
                "  # with patch: the first call",
                "export TORCHINDUCTOR_DISABLED_PASSES=remove_noop_ops,reinplace",
            ],
        ),
        (
            FallBack(("aten.erf", "aten.mul")),
            [
                "torch._inductor.config.force_disable_caches = True; "
                "import torch._inductor.lowering; "
                "torch._inductor.lowering.make_fallback(torch.ops.aten.erf, warn=False); "
                "torch._inductor.lowering.make_fallback(torch.ops.aten.mul, warn=False)"
            ],
        ),
        (
            FallBack(("aten.gelu",), decomposed=True),
            [
                "torch._inductor.config.force_disable_caches = True; "
                "import torch._inductor.lowering; "
                "torch._decomp.remove_decompositions(torch._inductor.lowering.decompositions, "
                "[torch.ops.aten.gelu]); "
                "[getattr(torch.ops.aten.gelu, o).py_kernels.pop(k, None) "
                "for o in torch.ops.aten.gelu.overloads() "
                "for k in (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd)]; "
                "torch._inductor.lowering.make_fallback(torch.ops.aten.gelu, warn=False)"
            ],
        ),
        (
            UseBackend("aot_eager"),
            ['backend = "aot_eager"  # torch.compile(..., backend=backend)'],
        ),
    ],
)
def test_a_fix_is_written_as_lines_to_paste(fix: PlainFix, lines: list[str]) -> None:
    assert paste_lines(fix, variables=VARIABLES) == lines
    for line in lines:
        if not line.startswith("export "):
            ast.parse(line)


def test_a_variable_that_torch_does_not_read_is_not_offered() -> None:
    lines = paste_lines(SetFlags({"inductor.cpp.simdlen": 1}))
    assert len(lines) == 3
    assert not any(line.startswith("export") for line in lines)


def test_a_variable_is_no_way_to_set_what_the_subject_sets_itself() -> None:
    fix = SetFlags({"inductor.emulate_precision_casts": True})
    told = paste_lines(fix, {"inductor.emulate_precision_casts": False}, VARIABLES)
    assert not any("TORCHINDUCTOR" in line for line in told)
    assert any(OVERRIDE in line for line in told)


@pytest.mark.parametrize(
    ("kind", "decisions", "fix"),
    [
        (
            "pass",
            ["pass:reinplace@graph", "pass:remove_noop_ops@graph"],
            DisablePasses(("reinplace", "remove_noop_ops")),
        ),
        (
            "lowering",
            ["lower:aten.erf@erf", "lower:aten.mul/mul_1@gelu", "lower:aten.mul@mul"],
            FallBack(("aten.erf", "aten.mul")),
        ),
        ("decomposition", ["decomp:aten.gelu@gelu"], FallBack(("aten.gelu",), decomposed=True)),
        ("lowering", ["lower:my_op@my_op"], None),
        ("decision", ["fma:sub@mul"], None),
    ],
)
def test_what_plain_torch_can_leave_out_it_leaves_out_by_name(
    kind: str, decisions: list[str], fix: PlainFix | None
) -> None:
    assert by_name(kind, [DecisionId(decision) for decision in decisions]) == fix


@pytest.mark.parametrize(
    "fix",
    [
        SetFlags({"functorch.cse": False}),
        SetFlags({"inductor.a": 1, "inductor.b": None}),
        DisablePasses(("reinplace",)),
        FallBack(("aten.erf", "aten.mul")),
        FallBack(("aten.gelu",), decomposed=True),
    ],
)
def test_a_repro_runs_what_the_line_to_paste_says(fix: PlainFix) -> None:
    made, pasted = statements(fix), paste_lines(fix)[0].split("; ")
    assert made.lines
    assert pasted[-len(made.lines) :] == list(made.lines)
    assert set(pasted[: -len(made.lines)]) <= {
        *made.imports,
        "torch._inductor.config.force_disable_caches = True",
    }


def test_an_environment_variable_is_set_before_torch_is_imported() -> None:
    assert statements(SetFlags({"env.A": 1})).early == ('os.environ["A"] = "1"',)


def test_an_argument_of_torch_compile_stands_in_its_call_and_nowhere_else() -> None:
    alone = SetFlags({"compile.dynamic": False})
    told = "arguments = dict(dynamic=False)  # torch.compile(..., **arguments)"
    assert paste_lines(alone) == [told]
    assert statements(alone).lines == ()
    assert compile_arguments(alone) == {"dynamic": False}
    both = SetFlags({"dynamo.specialize_float": True, "compile.dynamic": False})
    assert paste_lines(both) == [f"torch._dynamo.config.specialize_float = True; {told}"]
    assert compile_arguments(UseBackend("aot_eager")) == {"backend": "aot_eager"}
    assert compile_arguments(SetFlags({"inductor.cpp.simdlen": 1})) == {}
