"""`step:FUNCTION@file:line:columns`: Dynamo traces a call, or an item or attribute that is read or set.
Denied, the graph breaks there, and Python runs that step.

Put into the handlers of the instructions at which Dynamo can break a graph (`break_graph_if_unsupported`,
torch/_dynamo/symbolic_convert.py): a step that is denied is to them one that they do not support. A script
has many steps; they are taken where they are listed, and denied by name. Exercised on torch 2.13.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import re
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch._dynamo import symbolic_convert
from torch._dynamo.exc import unimplemented
from torch.overrides import resolve_name

from ...core import kinds
from ...core.decision import DecisionId
from ...core.steps import Step
from ..control import current
from .frame import may_be_left
from .patching import HookUnavailable

KIND = kinds.STEP

# The instructions of Python 3.11 to 3.14; each version has some of them.
_INSTRUCTIONS = (
    "CALL", "CALL_KW", "CALL_FUNCTION_EX", "CALL_FUNCTION", "CALL_FUNCTION_KW", "STORE_ATTR", "STORE_SUBSCR",
    "BINARY_SUBSCR", "COMPARE_OP",
)  # fmt: skip
_HANDLER = "inner_fn"  # as the decorator names what it is put around
_TRACED: list[DecisionId] = []  # the steps that are at work, each within the one before it
# A function goes on in another one behind a graph break (torch/_dynamo/resume_execution.py).
_GOES_ON = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+")
_BEFORE_A_VALUE = re.compile(r"\s*[\w.]+(?:, *[\w.]+)* = ")
_IS_SET = re.compile(r" [^\s=!<>]{0,3}= ")  # what follows a name that is set: ` = `, ` += `
MOST_TEXT = 60  # characters of a step's source
MOST_NODES = 4  # of the graph that a step becomes


def install() -> None:
    if sys.version_info < (3, 11):
        raise HookUnavailable("Python 3.10 does not say where in a line an instruction stands")
    found = [_put_into(getattr(symbolic_convert.InstructionTranslatorBase, i, None)) for i in _INSTRUCTIONS]
    if not any(found):
        raise HookUnavailable("InstructionTranslatorBase has no instruction at which a graph can break")


def _put_into(decorated: Any) -> bool:
    """Ask before the handler that a decorator was put around; whether it has one."""
    names = getattr(getattr(decorated, "__code__", None), "co_freevars", ())
    if _HANDLER not in names:
        return False
    cell = decorated.__closure__[names.index(_HANDLER)]
    cell.cell_contents = _asking(cell.cell_contents)
    return True


def _asking(handler: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(handler)
    def traced(self: Any, inst: Any) -> None:
        control = current(KIND.name)
        if control is None or not (control.lists(KIND.name) or control.denies(KIND.name)):
            return handler(self, inst)
        decision = _decision(self.f_code, inst)
        if decision is None:
            return handler(self, inst)
        if control.refuses(decision):
            unimplemented(gb_type="left to Python", context=decision.id, explanation="", hints=[])
        if not control.lists(KIND.name):
            return handler(self, inst)
        before, within = _nodes(self), _TRACED[-1] if _TRACED else None
        _TRACED.append(decision.id)
        try:
            handler(self, inst)
        finally:
            _TRACED.pop()
        control.take(replace(decision, becomes=_becomes(self, before), within=within))
        return None

    return traced


def _decision(code: types.CodeType, inst: Any) -> Step | None:
    """None for an instruction of another's function, of a generator, which goes on in Python as a whole, or
    without a place."""
    at = inst.positions
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return None
    if at is None or at.lineno is None or at.col_offset is None or not may_be_left(code):
        return None
    goes_on = _GOES_ON.fullmatch(code.co_name)
    name = goes_on[1] if goes_on is not None else code.co_name
    place = f"{os.path.basename(code.co_filename)}:{at.lineno}"
    source = _source(code.co_filename, at)
    end = at.end_col_offset if at.end_lineno == at.lineno else f"{at.end_lineno}:{at.end_col_offset}"
    step = DecisionId.of(KIND.name, name, f"{place}:{at.col_offset}-{end}")
    return Step(step, f"Dynamo traces `{source}`", place, code=source)


def _source(file: str, at: Any) -> str:
    """What the program says there: all of an assignment of which it is the value, or what is set. Columns
    count bytes."""
    lines = [line.encode() for line in linecache.getlines(file)[at.lineno - 1 : at.end_lineno]]
    if not lines:
        return "?"
    before, after = _text(lines[0][: at.col_offset]), _text(lines[-1][at.end_col_offset :])
    is_value = _BEFORE_A_VALUE.fullmatch(before) is not None and not after.strip()
    if not is_value and not (_IS_SET.match(after) and not before.strip()):
        lines[-1] = lines[-1][: at.end_col_offset]
        lines[0] = lines[0][at.col_offset :]
    text = " ".join(_text(b" ".join(lines)).split())
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}..."


def _text(line: bytes) -> str:
    return line.decode(errors="replace")


def _nodes(translator: Any) -> set[str]:
    return {node.name for node in translator.output.graph.nodes}


def _becomes(translator: Any, before: set[str]) -> str:
    """What a step that was traced becomes. before: the nodes of the graph until then."""
    made = [node for node in translator.output.graph.nodes if node.name not in before]
    names = list(dict.fromkeys(_name(node) for node in made if node.op.startswith("call")))
    if names:
        more = f" and {len(names) - MOST_NODES} more" if len(names) > MOST_NODES else ""
        return f"{', '.join(names[:MOST_NODES])}{more} in the graph"
    if translator.stack and translator.stack[-1].is_python_constant():
        constant = translator.stack[-1].as_python_constant()
        if isinstance(constant, (bool, int, float, str)):
            return f"the constant {str(constant)[:MOST_TEXT]}"
    return ""


def _name(node: torch.fx.Node) -> str:
    """`torch.cumsum` of a function, `cumsum` of a method, `torch._numpy.cumsum` of one of NumPy's."""
    target = node.target
    if isinstance(target, str):
        return target
    # torch/_dynamo/utils.py: numpy_to_tensor_wrapper, numpy_operator_wrapper
    if (wrapped := getattr(target, "f", None) or getattr(target, "op", None)) is not None:
        return f"torch._numpy.{getattr(wrapped, '__name__', wrapped)}"
    name = getattr(target, "__qualname__", None) or str(target)
    return resolve_name(target) or name
