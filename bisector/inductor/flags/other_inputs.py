"""Whether candidates make the outputs agree on other inputs too.

What repairs by moving rounding elsewhere repairs the recorded inputs by chance, and not the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from ...core.case import Case
from ...core.criterion import Criterion
from ...core.judge import judge
from ...core.model import Candidate, Measurement, Outcome
from ...core.protocol import CannotAnswer, Draw, Draws
from .. import execute, measure, tensors
from ..capture.record import Call
from ..programs import Program, program

FEW = 8  # a tensor of so few different values (a mask, ones, a scale) keeps them; they change places only
LOOKED_AT = 4096  # values that tell whether there are few
# Redrawn values stay within the range of the recorded ones and on their side of zero.
SHRINK = (0.5, 1.0)

Outputs = execute.Outputs


def try_candidates(
    call: Call,
    case: Case,
    candidates: Sequence[Candidate],
    criterion: Criterion,
    train: bool | None,
    draws: int,
) -> Draws:
    """The outcome by default and with each candidate, for each draw of values. Raises CannotAnswer where one
    does not compile."""
    subject = execute.prepare(call, case, train)
    try:
        programs = [program(subject, case, each) for each in (Candidate(), *candidates)]
    except execute.NotCompiled as error:
        raise CannotAnswer(str(error)) from error
    found = []
    for draw in range(draws):
        args = redrawn(subject.edited.args, draw)
        eager = _outputs(subject, execute.eager_program(subject), args)
        default, *fixed = (_outcome(eager, _run(each, args), criterion) for each in programs)
        found.append(Draw(default, tuple(fixed)))
    return Draws(tuple(found))


def redrawn(args: Sequence[Any], seed: int) -> list[Any]:
    """Floating-point inputs with other values like the recorded ones; everything else as it is.

    Integers index and count, and inputs that share memory are views of each other: both keep what they are.
    """
    generator = torch.Generator().manual_seed(seed)
    plain = [a for a in args if isinstance(a, torch.Tensor) and a.layout is torch.strided and a.numel() > 1]
    shared = Counter(a.untyped_storage().data_ptr() for a in plain)
    drawn = {
        id(a): _redraw(a, generator)
        for a in plain
        if a.is_floating_point() and shared[a.untyped_storage().data_ptr()] == 1 and 0 not in a.stride()
    }
    return [drawn.get(id(a), a) for a in args]


def _redraw(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The values at other places, each a little smaller; with the strides of the recorded tensor."""
    values = x.detach().double().cpu().reshape(-1)
    values = values[torch.randperm(len(values), generator=generator)]
    if len(values[:LOOKED_AT].unique()) > FEW:
        low, high = SHRINK
        values = values * (low + (high - low) * torch.rand(len(values), generator=generator))
    like = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    return like.copy_(values.reshape(x.shape))


def _run(made: Program, args: Sequence[Any]) -> Outputs:
    with made.flags_set():
        return _outputs(made.subject, made.compiled, args)


def _outputs(subject: execute.Subject, fn: Any, args: Sequence[Any]) -> Outputs:
    return execute.run(subject, fn, tensors.fresh(args, subject.edited.requires_grad))


def _outcome(eager: Outputs, compiled: Outputs, criterion: Criterion) -> Outcome:
    return judge(Measurement(measure.measure_all(eager, compiled)), criterion).outcome
