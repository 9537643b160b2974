"""To how few digits the factors of a float32 product may be rounded: matrix products and convolutions in TF32
or bfloat16, where torch's settings allow it (docs.pytorch.org/docs/stable/notes/numerical_accuracy.html).

Whether a kernel does so is its own choice: with cuDNN it can depend on how the image lies in memory.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree

from ..core.dtypes import EPS, TF32_EPS
from .torch_state import backend_value

CONVOLUTIONS = frozenset({
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution",
})  # fmt: skip
MATRIX_PRODUCTS = frozenset({
    "addbmm", "addmm", "addmv", "baddbmm", "bmm", "dot", "einsum", "inner", "linear", "matmul", "mm", "mv",
    "scaled_dot_product_attention", "tensordot",
})  # fmt: skip
_EPS = {"tf32": TF32_EPS, "bf16": EPS["bfloat16"]}
# The settings that allow it, by the device: below torch.backends, the newer name and the older one, which is
# True for TF32. The older one can't be read where a script has set the newer one to something else.
_ALLOW = {
    ("cuda", MATRIX_PRODUCTS): ("cuda.matmul.fp32_precision", "cuda.matmul.allow_tf32"),
    ("cuda", CONVOLUTIONS): ("cudnn.conv.fp32_precision", "cudnn.allow_tf32"),
    ("cpu", MATRIX_PRODUCTS): ("mkldnn.matmul.fp32_precision",),
    ("cpu", CONVOLUTIONS): ("mkldnn.conv.fp32_precision",),
}


def factor_eps(name: str, args: Any) -> float:
    """The machine epsilon of the format to which an operation may round its float32 factors; 0 where it keeps
    them. name: of the operation, without its overload. args: its arguments."""
    factors = [v for v in pytree.tree_leaves(args) if isinstance(v, torch.Tensor)]
    if not factors or any(v.dtype is not torch.float32 for v in factors):
        return 0.0
    found = [
        allowed_by(setting)
        for (device, names), settings in _ALLOW.items()
        if name in names and factors[0].device.type == device
        for setting in settings
    ]
    return max(found, default=0.0)


def allowed_by(setting: str) -> float:
    """The machine epsilon that a setting of torch.backends allows; 0 for float32's own."""
    value = backend_value(setting)
    return _EPS["tf32"] if value is True else _EPS.get(str(value), 0.0)
