"""A fix in words, and as lines of plain torch to paste."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from bisector.core.model import Json
from bisector.report.words import conjunction, detail_of, python_literal, short_decision

# The flag whose variable gives settings to single graphs, by their number (torch/_dynamo/graph_id_filter.py).
PER_GRAPH = "dynamo.debug_inductor_config_override"
PASSES = "inductor.disabled_passes"
EVERY_GRAPH = ">=0"
# Of a change to torch's tables its caches of graphs do not know: a program compiled before would be found.
_UNCACHED = "torch._inductor.config.force_disable_caches = True"
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


def fix_lines(
    fix: Mapping[str, Any],
    settings: Mapping[str, Json] | None = None,
    variables: Mapping[str, str] | None = None,
) -> list[str]:
    """The ways to apply a fix with plain torch, one line each, any one does; empty where it has none.

    Each line runs as it is, in Python or, where it starts with `export`, in a shell; a comment says what to
    do with the name that it makes. A lowering can only be left out for all nodes of its operator.
    settings: what the subject sets itself; the environment is then no way to set the same flag, since the
    subject's own line would win. variables: flag -> the environment variable that torch reads it from.
    """
    if fix["set"]:
        return _flag_lines(fix["set"], settings or {}, variables or {})
    details = list(dict.fromkeys(detail_of(member) for member in fix["id"].split(" + ")))
    if fix["kind"] == "backend":
        return [f'backend = "{_backend(fix)}"  # torch.compile(..., backend=backend)']
    if fix["kind"] == "pass":
        return _flag_lines({PASSES: ",".join(details)}, settings or {}, variables or {})
    statement = {"lowering": _fallback_line, "decomposition": _whole_line}.get(fix["kind"])
    if statement is None or not all(_OPERATOR.fullmatch(detail) for detail in details):
        return []
    return [statement(details)]


def _backend(fix: Mapping[str, Any]) -> str:
    return str(fix["id"]).removeprefix("backend=")


def _fallback_line(operators: Sequence[str]) -> str:
    calls = [f"make_fallback(torch.ops.{name}, override_decomp=True)" for name in operators]
    return "; ".join([_UNCACHED, "from torch._inductor.lowering import make_fallback", *calls])


def _whole_line(operators: Sequence[str]) -> str:
    # The table is keyed by overload, and an ID has the operator's name without it.
    packets = [".".join(name.split(".")[:2]) for name in operators]
    # Inductor's own fallback, for an op that it has no lowering of, is refused where CI is set.
    taken = "table.pop(op) and make_fallback(op, warn=False)"
    each = [f"[{taken} for op in list(table) if str(op).startswith('{name}.')]" for name in packets]
    imported = "from torch._inductor.lowering import decompositions as table, make_fallback"
    return "; ".join([_UNCACHED, imported, *each])


def _flag_lines(
    values: Mapping[str, Json], settings: Mapping[str, Json], variables: Mapping[str, str]
) -> list[str]:
    named = {name: name.removeprefix("env.") for name in values if name.startswith("env.")}
    variables = {**variables, **named}
    in_shell = [_shell_word(variables[n], v) for n, v in values.items() if n in variables and v is not None]
    exported = [f"export {' '.join(in_shell)}"] if len(in_shell) == len(values) else []
    if named:
        return exported
    lines = ["; ".join(_assignment(name, value) for name, value in values.items())]
    if all(name.startswith("inductor.") for name in values):
        plain = {name.removeprefix("inductor."): value for name, value in values.items()}
        options = "{" + ", ".join(f'"{name}": {python_literal(v)}' for name, v in plain.items()) + "}"
        lines.append(f"options = {options}  # torch.compile(..., options=options)")
        lines.append(f"patch = torch._inductor.config.patch({options})  # with patch: the first call")
        if PER_GRAPH in variables and all(map(_is_word, plain.values())):
            rule = ",".join(f"{name}={value}" for name, value in plain.items())
            lines.append(f"export {variables[PER_GRAPH]}='{EVERY_GRAPH}:{rule}'")
    return lines if settings.keys() & values.keys() else lines + exported


def _is_word(value: Json) -> bool:
    """Whether the rule of a graph can hold the value, which it reads as a constant if it looks like one."""
    return isinstance(value, (bool, int, float, type(None))) or bool(re.fullmatch(r"[a-z]\w*", str(value)))


def _assignment(name: str, value: Json) -> str:
    module, _, rest = name.partition(".")
    # torch loads _inductor and _dynamo on first use, functorch's config only when it is imported
    before = "import torch._functorch.config; " if module == "functorch" else ""
    return f"{before}{_MODULES.get(module, module)}.{rest} = {python_literal(value)}"


def _shell_word(variable: str, value: Json) -> str:
    return f"{variable}={shlex.quote(str(int(value)) if isinstance(value, bool) else str(value))}"
