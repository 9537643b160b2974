"""Tensors as source text that gives every byte and every stride back, or as a call that draws them.

Every text is evaluated and compared with the tensor before it is handed out, so a form that is not exact for
some dtype or value (a negative NaN in bfloat16, say) falls to the next one; the last is a blob.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import torch

from ...core.case import WRITTEN_OUT
from .values import LINE_WIDTH, CannotWrite, filled, value_source

DRAWN = {"randn": torch.randn, "rand": torch.rand}
SEEDS = 16  # what a case draws, from 0 on
# Of more elements only those of the first seed are compared: each draw takes time.
MANY = 16_384
LITERAL_ELEMENTS = WRITTEN_OUT  # more numbers than this are not read by anyone: a blob is shorter

INDENT = 8  # of elements that stand on lines of their own
NAME_WIDTH = 40  # of `    name = torch.tensor(...)` around the elements

# What a blob needs in the emitted file; part of the text of a repro.
UNPACK = '''\
def unpack(data, dtype, shape):
    """The tensor whose bytes are in data, base64 of zlib."""
    raw = bytearray(zlib.decompress(base64.b64decode(data)))
    return torch.frombuffer(raw, dtype=torch.uint8).view(dtype).reshape(shape)
'''


def drawn(draw: str, x: torch.Tensor, seed: int) -> torch.Tensor:
    """Numbers for the input in its dtype, drawn in float32."""
    generator = torch.Generator().manual_seed(seed)
    return DRAWN[draw](x.shape, dtype=torch.float32, generator=generator).to(x.dtype)


def drawn_forms(value: torch.Tensor, default_dtype: torch.dtype | None) -> Iterator[str]:
    """Calls on the CPU that could give these floating-point values; the caller tries whether one does."""
    cast = "" if value.dtype is torch.float32 else f".to({value.dtype})"
    own = "" if default_dtype is torch.float32 else ", dtype=torch.float32"
    for seed, draw in product(range(SEEDS if value.numel() <= MANY else 1), DRAWN):
        factor = _factor(value, drawn(draw, value, seed))
        if factor is not None:
            generator = f"torch.Generator().manual_seed({seed})"
            times = "" if factor == 1 else f" * {factor:.0f}"
            yield f"torch.{draw}({tuple(value.shape)}{own}, generator={generator}){cast}{times}"


def _factor(value: torch.Tensor, numbers: torch.Tensor) -> float | None:
    """The power of two, at least 1, by which the numbers are multiplied; None where they are others."""
    first = int(numbers.reshape(-1).ne(0).to(torch.uint8).argmax())
    factor = value.reshape(-1)[first].item() / (numbers.reshape(-1)[first].item() or math.nan)
    whole = math.isfinite(factor) and factor >= 1 and math.frexp(factor)[0] == 0.5
    return factor if whole and torch.equal(numbers * factor, value.cpu()) else None


@dataclass(frozen=True)
class Source:
    """An expression, or a function, and the names it uses of base64 texts that `unpack` reads (blobs)."""

    text: str = ""
    blobs: Mapping[str, str] = field(default_factory=dict)

    def then(self, suffix: str) -> Source:
        return Source(self.text + suffix, self.blobs)


def literal(
    tensor: torch.Tensor,
    name: str = "x",
    *,
    default_dtype: torch.dtype | None = torch.float32,
) -> Source:
    """The text that makes `tensor` again: dtype, shape, strides and bytes; requires_grad is left out.

    name: what a blob is called after. default_dtype: the default dtype where the text will run, which is also
    the one of this process; None if it is not known.
    The storage offset is not kept. Raises CannotWrite for a tensor that is not plain strided memory.
    """
    check_plain(tensor)
    value = tensor.detach()
    for dense, suffix in _layouts(value):
        if _strides_after(dense, suffix) == value.stride():
            source = _dense(dense, name, default_dtype).then(suffix)
            if _gives(source, value):
                return source
    raise CannotWrite(
        f"no text gives {name} back: {value.dtype} {tuple(value.shape)} strides {value.stride()}"
    )


def check_plain(tensor: torch.Tensor) -> None:
    """Raises CannotWrite unless the tensor is a torch.Tensor or Parameter over strided memory of its own."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise CannotWrite(f"a tensor of type {type(tensor).__qualname__} has no literal")
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type == "meta":
        raise CannotWrite(f"a {tensor.layout} tensor on {tensor.device} has no literal")
    if tensor.is_neg() or tensor.is_conj():
        raise CannotWrite("a tensor that is a lazy conjugate or negative has no literal")


def _layouts(value: torch.Tensor) -> Iterator[tuple[torch.Tensor, str]]:
    """Contiguous tensors and the text that makes the strides of `value` of them, simplest first."""
    yield _plain_copy(value), ""
    if value.dim() == 2:
        yield _plain_copy(value.t()), ".t()"
    if value.dim() == 4:
        yield _plain_copy(value), ".to(memory_format=torch.channels_last)"
    # Sorted from the widest stride to the narrowest, a dense tensor is contiguous.
    order = sorted(range(value.dim()), key=value.stride().__getitem__, reverse=True)
    back = [order.index(d) for d in range(value.dim())]
    yield _plain_copy(value.permute(order)), f".permute({', '.join(map(str, back))})"
    if 0 in value.stride() and value.numel():
        narrow = value[tuple(slice(0, 1) if s == 0 else slice(None) for s in value.stride())]
        yield _plain_copy(narrow), f".expand({', '.join(map(str, value.shape))})"
    yield _span(value), f".as_strided({_sizes(value.shape)}, {_sizes(value.stride())})"


def _plain_copy(value: torch.Tensor) -> torch.Tensor:
    """A copy with the strides of a new tensor; contiguous() keeps odd ones of dimensions of one."""
    return value.clone(memory_format=torch.contiguous_format)


def _strides_after(dense: torch.Tensor, suffix: str) -> tuple[int, ...]:
    made = eval(f"dense{suffix}", {"torch": torch, "dense": torch.empty_like(dense, device="meta")})
    return tuple(made.stride())


def _span(value: torch.Tensor) -> torch.Tensor:
    """The memory from the first element to the last as a vector, with zeros in the gaps."""
    reach = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    extent = reach + 1 if value.numel() else 0
    at = torch.arange(extent).as_strided(value.shape, value.stride()).reshape(-1)
    raw = torch.zeros(extent, value.element_size(), dtype=torch.uint8)
    raw[at] = raw_bytes(value.cpu()).reshape(-1, value.element_size())
    return raw.reshape(-1).view(value.dtype).to(value.device)


def _dense(value: torch.Tensor, name: str, default_dtype: torch.dtype | None) -> Source:
    device = "" if value.device.type == "cpu" else f".to({value_source(value.device)})"
    for text in _short_forms(value, default_dtype):
        if _gives(Source(text + device), value):
            return Source(text + device)
    blob = f"{name.upper()}_DATA"
    text = f"unpack({blob}, {value.dtype}, {_sizes(value.shape)})"
    return Source(text + device, {blob: _packed(value)})


def _short_forms(value: torch.Tensor, default_dtype: torch.dtype | None) -> Iterator[str]:
    shape, dtype = _sizes(value.shape), f", dtype={value.dtype}"
    if value.numel() == 0:
        yield f"torch.empty({shape}{dtype})"
        return
    first = value.reshape(-1)[0]
    one = value_source(_shortest(first))
    inferred = {float: default_dtype, int: torch.int64, bool: torch.bool}.get(type(first.item()))
    needed = "" if inferred is value.dtype else dtype
    if value.numel() > 1 and torch.equal(raw_bytes(value), raw_bytes(first).repeat(value.numel(), 1)):
        if one in ("0", "0.0", "1", "1.0"):
            make = "torch.zeros" if one.startswith("0") else "torch.ones"
            yield f"{make}({shape.strip('(,)')}{'' if value.dtype is default_dtype else dtype})"
        yield f"torch.full({shape}, {one}{needed})"
    if value.numel() <= LITERAL_ELEMENTS:
        yield _tensor_call(value, needed)
    elif _counts_up(value):
        flat = f"torch.arange({one}, {value_source(first.item() + value.numel())}{dtype})"
        yield flat if value.dim() == 1 else f"{flat}.reshape{shape}"
    elif value.is_floating_point():
        yield from drawn_forms(value, default_dtype)


def _counts_up(value: torch.Tensor) -> bool:
    if value.dtype not in (torch.float32, torch.float64, torch.int64, torch.int32):
        return False
    flat = value.reshape(-1)
    return bool((flat[1:] - flat[:-1] == 1).all())


def _packed(value: torch.Tensor) -> str:
    return base64.b64encode(zlib.compress(raw_bytes(value.cpu()).numpy().tobytes(), 9)).decode("ascii")


def _gives(source: Source, value: torch.Tensor) -> bool:
    """Whether the text makes exactly this tensor, strides included."""
    try:
        made = evaluate(source)
    except RuntimeError:  # the shortest text of the largest float32 is a little more than it
        return False
    return (made.dtype, made.shape, made.device, made.stride()) == (
        value.dtype,
        value.shape,
        value.device,
        value.stride(),
    ) and torch.equal(raw_bytes(made), raw_bytes(value))


def evaluate(source: Source) -> torch.Tensor:
    """What the text gives when it is run."""
    made: torch.Tensor = eval(source.text, text_names(source.blobs))
    return made


def text_names(blobs: Mapping[str, str]) -> dict[str, Any]:
    """The names that emitted text may use."""
    names: dict[str, Any] = {"torch": torch, "zlib": zlib, "base64": base64, "inf": math.inf, "nan": math.nan}
    exec(UNPACK, names)
    return names | dict(blobs)


def _tensor_call(value: torch.Tensor, keywords: str) -> str:
    """torch.tensor with the elements. keywords: what stands behind them, from the comma on.

    On one line where they fit there; else a matrix has its rows, and any other tensor is written flat.
    """
    numbers = _shortest(value)
    line = value_source(numbers)
    if len(line) <= LINE_WIDTH - NAME_WIDTH:
        return f"torch.tensor({line}{keywords})"
    rows = [value_source(row) for row in numbers]
    shaped = ""
    if value.dim() > 2 or value.shape[-1] == 1 or max(map(len, rows)) > LINE_WIDTH - INDENT - 1:
        rows = [value_source(number) for number in _shortest(value.reshape(-1))]
        shaped = f".reshape{tuple(value.shape)}"
    return f"torch.tensor([\n{filled(rows, ' ' * INDENT)}\n    ]{keywords}){shaped}"


def _shortest(value: torch.Tensor) -> Any:
    """The elements as nested lists, each a number whose text is as short as it can be."""
    if value.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return value.tolist()
    flat = value.reshape(-1)
    exact = flat.tolist()
    best = list(exact)
    for digits in range(9, 0, -1):  # nine digits always distinguish two float32
        shorter = [float(f"{number:.{digits}g}") for number in exact]
        kept = raw_bytes(torch.tensor(shorter, dtype=value.dtype)) == raw_bytes(flat.cpu())
        best = [s if k else b for s, k, b in zip(shorter, kept.all(dim=1).tolist(), best, strict=True)]
    for size in reversed(value.shape[1:]):
        best = [best[i : i + size] for i in range(0, len(best), size)]
    return best if value.dim() else best[0]


def _sizes(sizes: Sequence[int]) -> str:
    return value_source(tuple(int(n) for n in sizes))


def raw_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of the elements: (numel, bytes of one number); a complex element is two numbers."""
    plain = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    flat = (torch.view_as_real(plain) if plain.is_complex() else plain).reshape(-1)
    return flat.view(torch.uint8).reshape(flat.numel(), flat.element_size())
