"""Programs that nobody chose: a grammar of torch's ops, dtypes, shapes, memory formats and settings.

Shapes and dtypes are not computed here: an expression is evaluated as the program grows, and one that torch
refuses is not taken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

SCRIPT = """\
import torch
import torch.nn.functional as F


def program({parameters}):
{body}
    return {returned}


def answers(run):
    taken = [{taken} for value in inputs]
    outputs = run(*taken)
{finish}


torch.manual_seed({seed})
inputs = [{inputs}]
expected = answers(program)
actual = answers(torch.compile(program{options}))
torch.testing.assert_close(actual, expected, equal_nan=True)
"""
INFERENCE = ("value.clone()", "    return outputs")
TRAINING = (
    "value.clone().requires_grad_(value.is_floating_point())",
    "    start = torch.zeros((), requires_grad=True)\n"
    "    sum((each.float().sum() for each in outputs if each.requires_grad), start).backward()\n"
    "    return [each.detach() for each in outputs], [each.grad for each in taken if each.grad is not None]",
)

# {x}, {y}: values; {c}: a number; {d}: a dimension. Twice in a list: drawn twice as often.
OPS = {
    "pointwise": [
        "torch.exp({x})", "torch.log({x}.abs())", "torch.log1p({x}.abs())", "torch.expm1({x})",
        "torch.erf({x})", "torch.erf({x})", "torch.tanh({x})", "torch.sigmoid({x})", "torch.sin({x})",
        "torch.cos({x})", "torch.sqrt({x}.abs())", "torch.rsqrt({x}.abs())", "torch.reciprocal({x})",
        "torch.relu({x})", "torch.abs({x})", "-{x}", "torch.atan({x})", "torch.log2({x}.abs())",
        "F.gelu({x})", "F.gelu({x}, approximate='tanh')", "F.silu({x})", "F.softplus({x})",
        "F.hardswish({x})", "F.elu({x})", "F.leaky_relu({x})", "torch.square({x})", "torch.lgamma({x})",
    ],
    "step": [
        "torch.floor({x})", "torch.ceil({x})", "torch.round({x})", "torch.trunc({x})", "torch.sign({x})",
        "torch.frac({x})", "torch.ceil({x} * {c})", "torch.floor({x} * {c})", "({x} > {c})",
        "torch.ceil(torch.log2({x}.abs()))",
    ],
    "cast": [
        "{x}.half()", "{x}.half().float()", "{x}.bfloat16()", "{x}.bfloat16().float()", "{x}.float()",
        "{x}.double()", "torch.nan_to_num({x}.float()).clamp(0, 255).to(torch.uint8)",
        "torch.nan_to_num({x}.float()).clamp(-1e6, 1e6).to(torch.int32)", "{x}.to(torch.bool)",
    ],
    "binary": [
        "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / {y}", "torch.maximum({x}, {y})",
        "torch.minimum({x}, {y})", "torch.remainder({x}, {y})", "torch.fmod({x}, {y})",
        "torch.atan2({x}, {y})", "torch.where({x} > 0, {x}, {y})", "torch.exp({x} - {y})",
        "torch.addcmul({x}, {x}, {y})", "torch.lerp({x}, {y}, 0.3)", "torch.hypot({x}, {y})",
        "torch.copysign({x}, {y})", "torch.pow({x}.abs(), {y})",
    ],
    "scalar": [
        "{x} * {c}", "{x} + {c}", "{x} / {c}", "{x} ** 2", "{x} ** 0.5", "{c} - {x}",
        "torch.clamp({x}, -1, 1)", "torch.remainder({x}, {c})", "torch.fmod({x}, {c})",
        "{x} + torch.zeros_like({x})",
    ],
    "reduction": [
        "torch.sum({x}, {d})", "torch.mean({x}, {d}, keepdim=True)", "torch.amax({x}, {d}, keepdim=True)",
        "torch.amin({x}, {d})", "torch.std({x}, {d})", "torch.var({x}, {d}, keepdim=True)",
        "torch.logsumexp({x}, {d})", "torch.prod({x}, {d})", "torch.argmax({x}, {d})",
        "torch.cumsum({x}, {d})", "torch.softmax({x}, {d})", "torch.log_softmax({x}, {d})",
        "F.layer_norm({x}, {x}.shape[-1:])", "{x} - torch.amax({x}, {d}, keepdim=True)",
        "torch.linalg.vector_norm({x}, 2, {d})", "torch.any({x} > 0, {d})", "torch.sort({x}, {d}).values",
    ],
    "layout": [
        "{x}.transpose(-1, -2)", "{x}.reshape(-1)", "{x}.flip({d})", "torch.cat([{x}, {x}], {d})",
        "{x}[..., ::2]", "{x}.contiguous()", "torch.roll({x}, 1, {d})", "F.pad({x}, (1, 2))",
        "{x}.unsqueeze({d})", "torch.stack([{x}, {y}])", "{x}.transpose(-1, -2).contiguous()",
        "torch.tril({x})", "{x}.expand(2, *{x}.shape)",
    ],
    "matmul": ["{x} @ {x}.transpose(-1, -2)", "{x}.transpose(-1, -2) @ {y}", "F.linear({x}, {y})"],
    "in place": ["{x}.clone().mul_({c})", "{x}.clone().clamp_(-1, 1)", "{x}.clone().add_({y})"],
    "image": [
        "F.interpolate({x}[None, None], scale_factor=1.3, mode='nearest')[0, 0]",
        "F.interpolate({x}[None, None], scale_factor=1.7, mode='bilinear')[0, 0]",
        "F.avg_pool1d({x}, 2)", "F.max_pool1d({x}, 2)",
    ],
}  # fmt: skip
KINDS = [*OPS, "pointwise", "pointwise", "pointwise", "step", "cast", "binary", "binary", "scalar"]
NUMBERS = ("0.5", "0.7", "2", "3", "-1.5", "1e4", "2.0**16", "2.0**23", "1e-3", "7")
SIZES = (1, 2, 3, 5, 8, 16, 17, 33, 64, 100)
MOST = 1 << 15  # elements of a value
INPUTS = (
    "torch.randn({shape}{dtype})",
    "torch.rand({shape}{dtype})",
    "torch.randn({shape}{dtype}) * 1e4",
    "torch.randn({shape}{dtype}) * 1e-30",
    "torch.randn({shape}{dtype}).masked_fill(torch.rand({shape}) < 0.1, float('inf'))",
    "torch.randint(-9, 9, ({shape},)).float()",
)
DTYPES = ("", "", "", "", ", dtype=torch.float16", ", dtype=torch.bfloat16", ", dtype=torch.float64")
OPTIONS = (
    "", "", "", "", ", dynamic=True",
    ', options={"cpp.enable_floating_point_contract_flag": "fast"}',
    ', options={"cpp.simdlen": 1}',
    ', options={"max_fusion_size": 2}',
    ', options={"realize_reads_threshold": 1}',
)  # fmt: skip


@dataclass(frozen=True)
class Draft:
    """A program so far. values: of each name, inputs first; lines: of its body."""

    values: dict[str, torch.Tensor]
    lines: list[str]

    def grown(self, expression: str) -> None:
        """One line more, where torch takes the expression."""
        try:
            value = eval(expression, {"torch": torch, "F": torch.nn.functional, **self.values})
        except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError):
            return
        if not value.is_complex() and 0 < value.numel() <= MOST:
            name = f"v{len(self.lines)}"
            self.values[name] = value
            self.lines.append(f"{name} = {expression}")


@st.composite
def inputs(draw: DrawFn, rows: int, columns: int) -> str:
    """An expression of one input, of the sizes or of what broadcasts with them."""
    shapes = ((rows, columns), (rows, columns), (columns,), (rows, 1), (1, columns), (2, rows, columns))
    shape = draw(st.sampled_from(shapes))
    turned = len(shape) == 2 and draw(st.integers(0, 4)) == 0
    text = ", ".join(map(str, reversed(shape) if turned else shape))
    expression = draw(st.sampled_from(INPUTS)).format(shape=text, dtype=draw(st.sampled_from(DTYPES)))
    return f"({expression}).t()" if turned else expression


@st.composite
def programs(draw: DrawFn) -> str:
    """The text of a script that compares a function of one to three inputs, in eager mode and compiled."""
    rows, columns = draw(st.sampled_from(SIZES)), draw(st.sampled_from(SIZES))
    made = draw(st.lists(inputs(rows, columns), min_size=1, max_size=3))
    names = ["a", "b", "c"][: len(made)]
    values = {name: eval(text, {"torch": torch}) for name, text in zip(names, made, strict=True)}
    draft = Draft(values, [])
    for _ in range(draw(st.integers(2, 9))):
        draft.grown(draw(_expressions(list(draft.values))))
    taken, finish = draw(st.sampled_from((INFERENCE, INFERENCE, INFERENCE, TRAINING)))
    if not any(value.is_floating_point() for value in draft.values.values()) or not draft.lines:
        taken, finish = INFERENCE
    return SCRIPT.format(
        parameters=", ".join(names),
        body="\n".join(f"    {line}" for line in draft.lines) or "    pass",
        returned=_returned(draft, names),
        taken=taken,
        finish=finish,
        seed=draw(st.integers(0, 999)),
        inputs=", ".join(made),
        options=draw(st.sampled_from(OPTIONS)),
    )


@st.composite
def _expressions(draw: DrawFn, names: Sequence[str]) -> str:
    template = draw(st.sampled_from(OPS[draw(st.sampled_from(KINDS))]))
    late = [*names, names[-1], names[-1]]  # what was computed last is used more often: deeper programs
    return template.format(
        x=draw(st.sampled_from(late)),
        y=draw(st.sampled_from(names)),
        c=draw(st.sampled_from(NUMBERS)),
        d=draw(st.sampled_from((-1, -1, 0))),
    )


def _returned(draft: Draft, inputs: Sequence[str]) -> str:
    """What nothing in the program reads, so that nothing of it is dead."""
    read = {word for line in draft.lines for word in re.findall(r"\w+", line.partition(" = ")[2])}
    unread = [name for name in draft.values if name not in read and name not in inputs]
    return ", ".join(unread or [f"{inputs[0]} * 1"]) + ","
