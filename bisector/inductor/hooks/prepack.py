"""`prepack:OP@node`: the constant weight of a layer (convolution, linear, RNN) in oneDNN's or MKL's form.

Such a layer then runs as that library's packed kernel. Inductor packs by graph patterns while it freezes
parameters (`freezing`); their handlers are made in `_register_weight_pack_pass`
(torch/_inductor/fx_passes/mkldnn_fusion.py) and `_register_quantization_weight_pack_pass` (quantization.py).
Each match of one is asked through `match`. Exercised on torch 2.13. Denied, the layer keeps its ATen op; what
is fused into the packed kernel (an activation, kind `match`) then stays a separate op.
"""

from __future__ import annotations

import torch
from torch._inductor.fx_passes import mkldnn_fusion

from ...core import kinds
from . import match
from .patching import HookUnavailable, require

KIND = kinds.PREPACK

_MAKER = "weight_pack_pass."  # in the qualified name of each handler


def install() -> None:
    if not torch.backends.mkldnn.is_available():
        raise HookUnavailable("this torch is built without oneDNN")
    require(mkldnn_fusion, "_register_weight_pack_pass")
    match.install()
    text = "the weight of {1} is packed for another library"
    match.claim(match.Claim(KIND.name, lambda name: _MAKER in name, _layer, text))


def _layer(handler: str) -> str:
    return handler.rpartition(".")[2]
