"""`frame:FUNCTION@file:line`: Dynamo traces a function of the program. Denied, Python runs it.

Patches `ConvertFrameAssert.__call__` (torch/_dynamo/convert_frame.py), which compiles a frame that Python is
about to run, and `InliningInstructionTranslator.check_inlineable` (torch/_dynamo/symbolic_convert.py), which
is asked of each function that is called in a traced one: denied there, the trace breaks at the call. Python
then runs all that the function calls too, as with `torch.compiler.disable`. Functions of torch and of
Python's library are left alone. Exercised on torch 2.11 to 2.15.
"""

from __future__ import annotations

import os
import sysconfig
import types
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo import convert_frame, symbolic_convert
from torch._dynamo.exc import Unsupported, unimplemented
from torch._dynamo.types import ConvertFrameReturn, FrameAction, FrameExecStrategy

import bisector

from ...core import kinds
from ...core.decision import Decision, DecisionId
from ..control import current
from .patching import wrap

KIND = kinds.FRAME

_TO_PYTHON = FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP)
_TORCH, _PYTHON, _OURS = (
    folder + os.sep
    for folder in (
        os.path.dirname(torch.__file__), sysconfig.get_paths()["stdlib"], os.path.dirname(bisector.__file__),
    )
)  # fmt: skip


def install() -> None:
    wrap(convert_frame.ConvertFrameAssert, "__call__", _compiled)
    wrap(symbolic_convert.InliningInstructionTranslator, "check_inlineable", _inlined)


def may_be_left(code: types.CodeType) -> bool:
    """Whether Python may run it instead: it is no function of torch, of Python's library or of numbisect."""
    file = code.co_filename
    pythons = file.startswith(_PYTHON) and "site-packages" not in file  # what is installed lies within
    return not pythons and not file.startswith((_TORCH, _OURS, "<"))


def _decision(code: types.CodeType, does: str, where: str) -> Decision | None:
    """None for a function of another's."""
    if not may_be_left(code):
        return None
    file = code.co_filename
    name = getattr(code, "co_qualname", code.co_name).replace(".<locals>", "")
    place = f"{os.path.basename(file)}:{code.co_firstlineno}"
    return Decision(DecisionId.of(KIND.name, name, place), f"Dynamo {does} `{name}`{where}", place)


def _compiled(original: Callable[..., ConvertFrameReturn]) -> Callable[..., ConvertFrameReturn]:
    def call(self: Any, frame: Any, *args: Any, **kwargs: Any) -> ConvertFrameReturn:
        control = current(KIND.name)
        decision = None if control is None else _decision(frame.f_code, "traces", "")
        if control is None or decision is None:
            return original(self, frame, *args, **kwargs)
        if control.refuses(decision):
            skipped = ConvertFrameReturn(_TO_PYTHON)
            skipped.skip_reason = "left to Python"  # before torch 2.13 nobody reads it
            return skipped
        made = original(self, frame, *args, **kwargs)
        if made.guarded_code is not None:
            control.take(decision)
        return made

    return call


def _inlined(original: Callable[..., Any]) -> Callable[..., Any]:
    def check_inlineable(func: Any) -> Any:
        control = current(KIND.name)
        code = _code_of(func) if control is not None else None
        decision = None if code is None else _decision(code, "inlines", " into the graph of its caller")
        found = original(func)
        if control is not None and decision is not None and not found.skipped and not control.take(decision):
            unimplemented(gb_type="left to Python", context=decision.id, explanation="", hints=[])
        return found

    return check_inlineable


def _code_of(func: Any) -> types.CodeType | None:
    try:
        code = func.get_code()
    except (AttributeError, NotImplementedError, Unsupported):  # of a function that has no code of its own
        return None
    return code if isinstance(code, types.CodeType) else None
