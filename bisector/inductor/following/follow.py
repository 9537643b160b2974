"""Follow the compiled run node by node: the error that arises at each node, and the gain of each.

One more compile, of the graph that returns its intermediate values too. Whether it still diverges as the
plain one does is for the caller to judge: returning a value can change what the compiler does with it. The
same graph says where runs of one compiled program first differ from each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch._inductor.config as inductor_config

from ...core.case import Case
from ...core.evidence import FALLBACK_RANDOM, MOST_RUNS
from ...core.model import Candidate
from ...core.protocol import CannotAnswer, Traced, Varying
from ...core.shares import Shares
from ...core.trace import Reach, Trace
from ...errors import first_line
from .. import execute, tensors, torch_state
from ..capture.record import Call
from ..equality import same
from ..graph import edit
from . import backward, taps
from .forward import Following
from .injection import Sharing

# What is returned only for us to look at must not be brought into eager's memory format for that.
_ANY_STRIDES = {"keep_output_stride": False} if hasattr(inductor_config, "keep_output_stride") else {}
MUTATED = "mutated["


def first_varying(call: Call, case: Case, train: bool | None) -> Varying:
    """The first node whose value is not the same in all runs. Raises CannotAnswer where the values of the
    compiled program cannot be had, or none of them varies once they are returned."""
    try:
        subject = execute.prepare(call, case, train)
        values = taps.Values(subject.edited.gm)
        execute.run(subject, values.run)
        tapped = taps.tapped(subject, values, ())
        with execute.active(execute.control_for(Candidate())):
            compiled = execute.compile_subject(tapped.subject, Candidate())
            runs = (execute.run(tapped.subject, compiled) for _ in range(MOST_RUNS))
            first, *others = (tapped.values(run) for run in runs)
    except Exception as error:
        raise CannotAnswer(first_line(error)) from error  # eager or compiled code may raise anything
    varying = {
        tap.node
        for tap, value in first.items()
        if any(not same(value, other[tap]) for other in others)
    }
    node = next((n for n in subject.edited.gm.graph.nodes if n.name in varying), None)
    if node is None:
        raise CannotAnswer("with its intermediate values returned the compiled program does not vary")
    return Varying(node.name)


def trace(
    call: Call,
    case: Case,
    candidate: Candidate,
    train: bool | None,
    left_out: Collection[str],
    reach: Reach = Reach.FORWARD,
    shares: Shares = Shares.NONE,
) -> Traced:
    """The trace, and the outputs of the compiled graph that was followed, against eager.

    left_out: nodes whose values are not returned. Raises CannotAnswer where the graph cannot be followed.
    """
    try:
        return _followed(execute.prepare(call, case, train), candidate, left_out, reach, shares)
    except (taps.NotTraced, execute.NotCompiled) as error:
        raise CannotAnswer(str(error)) from error
    except Exception as error:
        raise CannotAnswer(first_line(error)) from error  # eager or compiled code may raise anything


def _followed(
    subject: execute.Subject,
    candidate: Candidate,
    left_out: Collection[str],
    reach: Reach,
    shares: Shares,
) -> Traced:
    values = taps.Values(subject.edited.gm)
    eager = execute.run(subject, values.run)
    if values.drawn and not _draws_as_eager(candidate):
        raise taps.NotTraced("it draws random numbers")
    if values.generators is not None and values.generators.drawn():
        raise taps.NotTraced("its backward pass draws random numbers")
    back = reach is Reach.BACKWARD and subject.train
    tapped = taps.tapped(subject, values, left_out, backward.to_follow(values) if back else ())
    compiled = _compiled(tapped.subject, candidate)
    by_itself = partial(_by_itself, subject, candidate)
    following = Following(values, tapped.values(compiled), subject.edited, by_itself, keep=back)
    following.run(*tensors.fresh(subject.edited.args, subject.edited.requires_grad))
    nodes, ends = following.nodes, _ends(subject, values)
    if back:
        of_eager = execute.run(tapped.subject, execute.eager_program(tapped.subject))
        gradients = (tapped.gradients(outputs) for outputs in (compiled, of_eager))
        behind = backward.Backward(following, values, subject, *gradients).run()
        nodes, ends = [*nodes, *behind.nodes], {**ends, **behind.ends}
    own = {path: v for path, v in compiled.items() if path in eager or path.startswith(MUTATED)}
    found = Trace(tuple(nodes), ends)
    if shares is Shares.ALL:
        sharing = Sharing(subject, values.written, following.errors, eager, own)
        found = replace(found, parts=sharing.parts(nodes))
    return Traced(found, execute.measured(subject, eager, own))


def _compiled(subject: execute.Subject, candidate: Candidate) -> execute.Outputs:
    with _compiling(candidate):
        return execute.run(subject, execute.compile_subject(subject, candidate))


def _by_itself(
    subject: execute.Subject, candidate: Candidate, gm: torch.fx.GraphModule, inputs: list[Any]
) -> Any:
    """What another graph gives, compiled as this subject is."""
    edited = edit.Edited(gm, inputs, [False] * len(inputs), False)
    with _compiling(candidate), torch.no_grad():
        alone = replace(subject, edited=edited, whole=False, train=False)
        return execute.compile_subject(alone, candidate)(*inputs)


@contextmanager
def _compiling(candidate: Candidate) -> Iterator[None]:
    with (
        torch_state.kept([*dict(candidate.flags), execute.HEADER_FLAG]),
        execute.active(execute.control_for(candidate)),
        inductor_config.patch(_ANY_STRIDES),
    ):
        yield


def _ends(subject: execute.Subject, values: taps.Values) -> Mapping[str, str]:
    """The nodes of the outputs and of the inputs that are written into: the last that wrote there."""
    graph = subject.edited.gm.graph
    last = {node.name: writer for node, writer in values.last.items()}
    names = enumerate(subject.edited.output_names())
    ends = {f"output[{i}]": last.get(name, name) for i, name in names if name is not None}
    inputs = (node.name for node in graph.nodes if node.op == "placeholder")
    return ends | {f"{MUTATED}{name}]": last[name] for name in inputs if name in last}


def _draws_as_eager(candidate: Candidate) -> bool:
    """Whether the compiled program draws from the generators that eager draws from."""
    own = getattr(inductor_config, "fallback_random", False)
    return bool(dict(candidate.flags).get(FALLBACK_RANDOM, own))
