"""What a repro says, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from bisector.core.fix import PlainFix

from ...core.decision import DecisionId
from ..tensors import grad_flags

Tolerance = tuple[float, float]  # rtol, atol


@dataclass(frozen=True)
class ReproSpec:
    """Everything that `write_repro` needs.

    gm, inputs: the Dynamo graph and its real inputs.
    tolerances: (rtol, atol) of each output of the graph.
    requires_grad: one flag an input; None takes them from the inputs.
    grad_outputs: one tensor or None an output; given, there is a backward, and the gradients of the inputs
        that require grad are compared under grad_tolerances, one each.
    input_tolerances: given, one for each input that is a tensor: these are compared after the call.
    settings: flags by the contract's names (`inductor.cpp.simdlen`), as they are without the fix.
    compile_kwargs: those of torch.compile.
    autocast: (device type, dtype) of each autocast region around the call.
    seed: set before each of the two runs; None where nothing is random.
    raises: the type of exception that one of the two raises; "" where values are compared, and the tolerances
    are of no account where there is one.
    strides: whether the strides of the outputs are compared too.
    signed_zero: whether -0.0 against +0.0 is a difference (not looked at in complex outputs).
    assertion: lines that compare one output `a` with eager's `e`; "" where tolerances do.
    fix: what `--fixed` does.
    header: lines of the comment on top.
    decisions: IDs of those that the header names; a reader must find their nodes in the function.
    """

    gm: fx.GraphModule
    inputs: Sequence[Any]
    tolerances: Sequence[Tolerance]
    requires_grad: Sequence[bool] | None = None
    grad_outputs: Sequence[torch.Tensor | None] | None = None
    grad_tolerances: Sequence[Tolerance] = ()
    input_tolerances: Sequence[Tolerance] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    compile_kwargs: Mapping[str, Any] = field(default_factory=dict)
    grad_enabled: bool = True
    autocast: Sequence[tuple[str, torch.dtype]] = ()
    default_dtype: torch.dtype = torch.float32
    num_threads: int | None = None
    seed: int | None = None
    raises: str = ""
    strides: bool = False
    signed_zero: bool = False
    assertion: str = ""
    fix: PlainFix | None = None
    header: Sequence[str] = ()
    decisions: Sequence[DecisionId] = ()

    @property
    def grad_flags(self) -> list[bool]:
        """Whether each input requires grad; none does where nothing records gradients."""
        if not self.grad_enabled:
            return [False] * len(self.inputs)
        if self.requires_grad is not None:
            return list(self.requires_grad)
        return grad_flags(self.inputs)
