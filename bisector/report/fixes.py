"""A fix in words, and as lines of plain torch to paste."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bisector.core.model import Json
from bisector.report.words import conjunction, detail_of, python_literal, short_decision

# Flags that torch/_inductor/config.py (2.11 to 2.13) also reads from the environment, at import.
ENVIRONMENT_NAMES = {
    "inductor.comprehensive_padding": "TORCHINDUCTOR_COMPREHENSIVE_PADDING",
    "inductor.cpp.enable_floating_point_contract_flag": (
        "TORCHINDUCTOR_CPP_ENABLE_FLOATING_POINT_CONTRACT_FLAG"
    ),
    "inductor.cpp.enable_unsafe_math_opt_flag": "TORCHINDUCTOR_CPP_ENABLE_UNSAFE_MATH_OPT_FLAG",
    "inductor.cpp.use_decompose_tanh": "TORCHINDUCTOR_CPP_USE_DECOMPOSE_TANH",
    "inductor.cpp.weight_prepack": "TORCHINDUCTOR_CPP_WEIGHT_PREPACK",
    "inductor.disabled_passes": "TORCHINDUCTOR_DISABLED_PASSES",
    "inductor.emulate_precision_casts": "TORCHINDUCTOR_EMULATE_PRECISION_CASTS",
    "inductor.freezing": "TORCHINDUCTOR_FREEZING",
    "inductor.layout_optimization": "TORCHINDUCTOR_LAYOUT_OPTIMIZATION",
    "inductor.max_autotune": "TORCHINDUCTOR_MAX_AUTOTUNE",
    "inductor.online_softmax": "TORCHINDUCTOR_ONLINE_SOFTMAX",
    "inductor.permute_fusion": "TORCHINDUCTOR_PERMUTE_FUSION",
    "inductor.shape_padding": "TORCHINDUCTOR_SHAPE_PADDING",
    "inductor.triton.cooperative_reductions": "TORCHINDUCTOR_COOPERATIVE_REDUCTIONS",
    "inductor.triton.persistent_reductions": "TORCHINDUCTOR_PERSISTENT_REDUCTIONS",
    "inductor.use_fast_math": "TORCHINDUCTOR_USE_FAST_MATH",
}
_MODULES = {
    "inductor": "torch._inductor.config",
    "functorch": "torch._functorch.config",
    "dynamo": "torch._dynamo.config",
    "backends": "torch.backends",
    "triton": "triton.knobs",
}
_OPERATOR = re.compile(r"(?:aten|prims|quantized|torchvision)\.\w+(?:\.\w+)?")


def fix_title(fix: Mapping[str, Any]) -> str:
    """A fix in one phrase."""
    members = fix["id"].split(" + ")
    if fix["kind"] == "flag" and fix["set"]:
        return ", ".join(f"{name} = {python_literal(value)}" for name, value in fix["set"].items())
    if fix["kind"] == "backend":
        return f"the backend {_backend(fix)}"
    if fix["kind"] == "decision":
        return f"without {conjunction([short_decision(member) for member in members])}"
    names = conjunction(list(dict.fromkeys(detail_of(member) for member in members)))
    title = {
        "pass": "without the pass {}",
        "lowering": "every {} by its ATen kernel",
        "decomposition": "every {} left whole",
    }.get(fix["kind"], "{}")
    return title.format(names)


def fix_lines(fix: Mapping[str, Any], settings: Mapping[str, Json] | None = None) -> list[str]:
    """The ways to apply a fix with plain torch, one line each; empty where plain torch has none.

    settings: what the subject sets itself. The environment is then no way to set the same flag, since
    the subject's own line would win. A flag fix gives an assignment, and where that exists the
    `torch.compile` option and the shell variable; any one of the lines does. A lowering or a
    decomposition can only be left out for all nodes of its operator, not for one.
    """
    if fix["set"]:
        return _flag_lines(fix["set"], settings or {})
    details = list(dict.fromkeys(detail_of(member) for member in fix["id"].split(" + ")))
    if fix["kind"] == "backend":
        return [f'torch.compile(..., backend="{_backend(fix)}")']
    if fix["kind"] == "pass":
        return _flag_lines({"inductor.disabled_passes": ",".join(details)}, settings or {})
    statement = {"lowering": _fallback_line, "decomposition": _whole_line}.get(fix["kind"])
    if statement is None or not all(_OPERATOR.fullmatch(detail) for detail in details):
        return []
    return [statement(details)]


def _backend(fix: Mapping[str, Any]) -> str:
    return str(fix["id"]).removeprefix("backend=")


def _fallback_line(operators: Sequence[str]) -> str:
    calls = [f"make_fallback(torch.ops.{name}, override_decomp=True)" for name in operators]
    return "; ".join(["from torch._inductor.lowering import make_fallback", *calls])


def _whole_line(operators: Sequence[str]) -> str:
    # The table is keyed by overload, and an ID has the operator's name without it.
    packets = [".".join(name.split(".")[:2]) for name in operators]
    each = [
        f"[table.pop(op, None) for op in list(table) if str(op).startswith('{name}.')]" for name in packets
    ]
    return "; ".join(["from torch._inductor.decomposition import decompositions as table", *each])


def _flag_lines(values: Mapping[str, Json], settings: Mapping[str, Json]) -> list[str]:
    shell = [_shell_word(name, value) for name, value in values.items()]
    shell_line = " ".join([*shell, "python ..."])
    in_python = [name for name in values if not name.startswith("env.")]
    if not in_python:
        return [shell_line]
    line = "; ".join(_assignment(name, values[name]) for name in in_python)
    if len(in_python) < len(values):
        variables = " ".join(_shell_word(name, values[name]) for name in values if name not in in_python)
        return [f"{line}  # run with {variables}"]
    lines = [line]
    if all(name.startswith("inductor.") for name in values):
        options = ", ".join(
            f'"{name.removeprefix("inductor.")}": {python_literal(value)}' for name, value in values.items()
        )
        lines.append(f"torch.compile(..., options={{{options}}})")
    if all(shell) and not settings.keys() & values.keys():
        lines.append(shell_line)
    return lines


def _assignment(name: str, value: Json) -> str:
    module, _, rest = name.partition(".")
    # torch loads _inductor and _dynamo on first use, functorch's config only when it is imported
    before = "import torch._functorch.config; " if module == "functorch" else ""
    return f"{before}{_MODULES.get(module, module)}.{rest} = {python_literal(value)}"


def _shell_word(name: str, value: Json) -> str:
    variable = name.removeprefix("env.") if name.startswith("env.") else ENVIRONMENT_NAMES.get(name)
    if variable is None:
        return ""
    text = str(int(value)) if isinstance(value, bool) else str(value)
    return f"{variable}={text}" if re.fullmatch(r"[\w.,+-]*", text) else f"{variable}='{text}'"
