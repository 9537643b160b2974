"""What plain torch can do against a divergence, and the lines of Python or shell that do it.

Reports print these lines to be pasted, and a repro runs them for `--fixed`.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from .decision import DecisionId
from .fix import EDITS, CompileAnew, DisablePasses, FallBack, LeaveToPython, PlainFix, SetFlags, UseBackend
from .kinds import FRAME, GUARD
from .model import Json

# The flag whose variable sets flags of single graphs, by their number (torch/_dynamo/graph_id_filter.py).
PER_GRAPH = "dynamo.debug_inductor_config_override"
EVERY_GRAPH = ">=0"
# First word of a flag's name to the module that holds it.
MODULES = {
    "inductor": "torch._inductor.config",
    "functorch": "torch._functorch.config",
    "dynamo": "torch._dynamo.config",
    "triton": "triton.knobs",
    "backends": "torch.backends",
    "torch": "torch",
}
ARGUMENT = "compile"  # first word of the name of an argument of torch.compile: `compile.dynamic`
# torch imports these two modules when they are first used.
_IMPORTED_ON_USE = {"import torch._inductor.config", "import torch._dynamo.config"}
_LOWERING = "torch._inductor.lowering"
# torch's graph caches are not keyed on its tables of lowerings and decompositions.
_UNCACHED = "torch._inductor.config.force_disable_caches = True"
_BROKEN = "; without fullgraph=True"
_KEYS = ", ".join(f"torch._C.DispatchKey.{key}" for key in ("CompositeImplicitAutograd", "Autograd"))
_OPERATOR = re.compile(r"(?:aten|prims|quantized|torchvision)\.\w+(?:\.\w+)?")


def by_name(kind: str, decisions: Iterable[DecisionId], script: str = "") -> PlainFix | None:
    """What leaves these decisions out wherever their pass or operator occurs; None where nothing can.

    kind: "pass", "lowering" or "decomposition", or else what the script itself can leave out; plain torch
    has no way for others. script: its source, where the decisions are those of a whole script.
    """
    names = tuple(sorted({decision.detail for decision in decisions}))
    if kind == "pass":
        return DisablePasses(names)
    if kind == "decision":
        return _edit(tuple(decisions), script)
    if kind not in ("lowering", "decomposition") or not all(map(_OPERATOR.fullmatch, names)):
        return None
    return FallBack(names, decomposed=kind == "decomposition")


def _edit(decisions: Sequence[DecisionId], script: str) -> PlainFix | None:
    kinds = {decision.kind for decision in decisions}
    if kinds == {GUARD.name}:
        return CompileAnew({int(d.node.removeprefix("call")): d.detail for d in decisions})
    if kinds != {FRAME.name}:
        return None
    begin = {d.detail: int(d.node.rpartition(":")[2]) for d in decisions}
    lines = {name: _line_of_def(script, name, line) for name, line in begin.items()}
    known = {name: line for name, line in lines.items() if line is not None}
    return LeaveToPython(known) if len(known) == len(lines) else None


def _line_of_def(script: str, name: str, begin: int) -> int | None:
    """Where `def` stands, behind the decorators. None where the script has no such function there: it is in
    another file, or a lambda."""
    for node in ast.walk(ast.parse(script)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and name.endswith(node.name):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == begin:
                return node.lineno
    return None


def compile_arguments(fix: PlainFix | None) -> dict[str, Json]:
    """What the call of torch.compile takes for a fix, by the names of its arguments."""
    if isinstance(fix, UseBackend):
        return {"backend": fix.backend}
    if isinstance(fix, EDITS):  # neither can be had in one graph, whatever the script asks for
        return {"fullgraph": False}
    return arguments_among(fix.values) if isinstance(fix, SetFlags) else {}


def arguments_among(flags: Mapping[str, Json]) -> dict[str, Json]:
    """The arguments of torch.compile among them, by their own names."""
    roots = ((name, name.partition(".")) for name in flags)
    return {path: flags[name] for name, (root, _, path) in roots if root == ARGUMENT}


@dataclass(frozen=True)
class Statements:
    """Lines of Python. early: those that must run before torch is imported; imports: whole lines."""

    lines: tuple[str, ...] = ()
    early: tuple[str, ...] = ()
    imports: frozenset[str] = frozenset()


def statements(fix: PlainFix) -> Statements:
    """The fix in Python; nothing for UseBackend and other arguments, which the call of torch.compile itself
    takes, and for what edits the script."""
    if isinstance(fix, FallBack):
        return _fallback(fix)
    if isinstance(fix, (UseBackend, *EDITS)):
        return Statements()
    texts = {name: str(v) if name.startswith("env.") else v for name, v in fix.values.items()}
    return flag_statements({name: python_literal(value) for name, value in texts.items()})


def flag_statements(sources: Mapping[str, str], setters: Collection[str] = ()) -> Statements:
    """One assignment for each flag.

    sources: the flags' values as Python source; that of an environment variable is a string. setters: the
    names among them that are functions of torch, which are called with the value.
    """
    lines, early, imports = [], [], set()
    for name, source in sources.items():
        root, _, path = name.partition(".")
        if root == ARGUMENT:
            continue
        if root == "env":
            early.append(f"os.environ[{python_literal(path)}] = {source}")
            continue
        module = MODULES[root]
        if module.endswith(".config") or root == "triton":
            imports.add(f"import {module}")
        lines.append(f"{module}.{path}({source})" if name in setters else f"{module}.{path} = {source}")
    return Statements(tuple(lines), tuple(early), frozenset(imports))


def paste_lines(
    fix: PlainFix, settings: Mapping[str, Json] | None = None, variables: Mapping[str, str] | None = None
) -> list[str]:
    """The ways to apply a fix, one line each, any one does.

    Each line runs as it is, in Python or, where it starts with `export`, in a shell; a comment says what to
    do with the name that it makes. settings: the flags that the subject sets itself; an environment variable
    would be overridden by them. variables: flag -> the environment variable that torch reads it from.
    """
    if isinstance(fix, UseBackend):
        return [f"backend = {python_literal(fix.backend)}  # torch.compile(..., backend=backend)"]
    if isinstance(fix, FallBack):
        return ["; ".join(uncached_lines(fix))]
    if isinstance(fix, LeaveToPython):
        return [f"@torch.compiler.disable  # on `{name}`, line {n}{_BROKEN}" for name, n in fix.lines.items()]
    if isinstance(fix, CompileAnew):
        calls = fix.calls.items()
        return [f"torch._dynamo.reset()  # before call {n}, of `{name}`{_BROKEN}" for n, name in calls]
    return _flag_lines(fix, settings or {}, variables or {})


def uncached_lines(fix: PlainFix) -> list[str]:
    """The fix as lines of Python that run where torch's caches are on and nothing but torch is imported."""
    return [*statements(fix).early, *late_lines(fix)]


def late_lines(fix: PlainFix) -> list[str]:
    """Those of them that run once torch is imported."""
    made = statements(fix)
    caches = [_UNCACHED] if isinstance(fix, FallBack) else []
    return [*caches, *sorted(made.imports - _IMPORTED_ON_USE), *made.lines]


def python_literal(value: Json) -> str:
    """A JSON value as Python source, strings in double quotes."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _fallback(fix: FallBack) -> Statements:
    lines = []
    for name in fix.operators:
        op = f"torch.ops.{name}"
        if fix.decomposed:
            lines.append(f"torch._decomp.remove_decompositions({_LOWERING}.decompositions, [{op}])")
            # Python kernels decompose some before the table is asked (torch/_ops.py).
            each = f"for o in {op}.overloads() for k in ({_KEYS})"
            lines.append(f"[getattr({op}, o).py_kernels.pop(k, None) {each}]")
        # The warning is an error where the environment has CI set.
        lines.append(f"{_LOWERING}.make_fallback({op}, warn=False)")
    return Statements(tuple(lines), imports=frozenset([f"import {_LOWERING}"]))


def _flag_lines(
    fix: SetFlags | DisablePasses, settings: Mapping[str, Json], variables: Mapping[str, str]
) -> list[str]:
    values = fix.values
    named = {name: name.removeprefix("env.") for name in values if name.startswith("env.")}
    variables = {**variables, **named}
    in_shell = [_shell_word(variables[n], v) for n, v in values.items() if n in variables and v is not None]
    exported = [f"export {' '.join(in_shell)}"] if len(in_shell) == len(values) else []
    if named:
        return exported
    given = arguments_among(values)
    arguments = ", ".join(f"{name}={python_literal(value)}" for name, value in given.items())
    if given:
        arguments = f"arguments = dict({arguments})  # torch.compile(..., **arguments)"
    lines = ["; ".join(filter(None, [*uncached_lines(fix), arguments]))]
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


def _shell_word(variable: str, value: Json) -> str:
    return f"{variable}={shlex.quote(str(int(value)) if isinstance(value, bool) else str(value))}"
