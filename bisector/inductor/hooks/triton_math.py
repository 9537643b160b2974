"""`vec` where the backend is Triton: an operation that is computed faster than eager's kernels compute it.

Rules for `triton_ops`; exercised on torch 2.13 up to machine code, with a pretended device, and on an H200
with torch 2.11, which has no setting for the library that `own_log` asks for: there it is no decision.
- `vec:division@node`: a float32 division by the approximate `div.full`; denied, by `div.rn`
  (what `eager_numerics.division_rounding` does everywhere).
- `vec:own_log@node`: a logarithm by Triton's own lowering; denied, by libdevice's.
- `vec:own_exp@node`: under `use_fast_math`, an exponential by Triton's own lowering; denied, by libdevice's.
- `vec:ftz@node`: the library functions of the kernel that computes `node` flush denormals to zero; denied,
  they keep them (`eager_numerics.disable_ftz`).
Which file libdevice is read from holds for the whole process: a flag (`use_pytorch_libdevice`), no decision.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import config

from ...core import kinds
from .. import naming
from . import cpp_ops, tags, triton_ops, vec
from .patching import require

_LIBRARY = "libdevice."
# Op of a loop body -> (in whose name it is asked, the setting under which Inductor writes it exactly, text)
_EXACT: dict[str, tuple[str, dict[str, Any], str]] = {
    "truediv": ("division", {"eager_numerics.division_rounding": True}, "is an approximate division"),
    "reciprocal": ("division", {"eager_numerics.division_rounding": True}, "is an approximate division"),
    "log": ("own_log", {"eager_numerics.use_pytorch_libdevice": True}, "is Triton's own logarithm"),
    "exp": ("own_exp", {"use_fast_math": False}, "is Triton's own exponential"),
}

NAME = "vec on Triton"


def install() -> None:
    require(config, "eager_numerics", "use_fast_math")
    require(config.eager_numerics, "division_rounding", "disable_ftz")
    triton_ops.install()
    triton_ops.add_rule(_write_exactly)
    triton_ops.add_option_rule(_keep_denormals)


def _value(name: str) -> Any:
    """Of a setting; None where this torch does not have it."""
    owner: Any = config
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner


def _write_exactly(op: cpp_ops.Op, write: cpp_ops.Write) -> Any:
    control, tag = triton_ops.control_for(kinds.VEC.name, NAME), op.tag
    if control is None or tag is None or op.name not in _EXACT:
        return write(op)
    asked, settings, text = _EXACT[op.name]
    if all(_value(name) in (value, None) for name, value in settings.items()):
        return write(op)  # so already, or no choice of this torch's
    if op.name in ("truediv", "reciprocal") and not _float32(op):
        return write(op)  # the setting is about float32 alone
    sentence = f"{tags.described(tag.node)} {text}"
    if control.take(tags.decision(kinds.VEC.name, tag.node, sentence, f"{asked}{naming.suffix(tag.node)}")):
        return write(op)
    with config.patch(settings):
        return write(op)


def _float32(op: cpp_ops.Op) -> bool:
    return all(getattr(arg, "dtype", None) == torch.float32 for arg in op.args)


def _keep_denormals(options: triton_ops.Options, kernel: Any) -> None:
    control = triton_ops.control_for(kinds.VEC.name, NAME)
    if control is None or options.get("disable_ftz", True) or not _calls_library(kernel):
        return
    calling = [leaf for leaf in triton_ops.leaves(kernel) if _may_call(leaf)]
    text = "library functions flush denormals in the kernel that computes {}"
    if not triton_ops.allowed(control, kinds.VEC.name, "ftz", calling, text):
        options["disable_ftz"] = True


def _may_call(leaf: Any) -> bool:
    return any(op.target in vec.INEXACT for op in triton_ops.body_ops(leaf))


def _calls_library(kernel: Any) -> bool:
    """Whether what is written of the kernel so far, all but its last assembly, calls libdevice."""
    parts = (getattr(kernel, name, "") for name in ("body", "compute", "loads", "post_loop_combine"))
    return any(_LIBRARY in str(part) for part in parts)
