"""Names a person would give to the inputs and the values of a captured graph."""

from __future__ import annotations

import builtins
import keyword
import re
from collections import Counter
from collections.abc import Iterable, Sequence

# Names that the emitted files use themselves.
RESERVED = frozenset({
    "torch", "F", "math", "operator", "os", "sys", "base64", "zlib", "inf", "nan", "self", "fn", "inputs",
    "grad_outputs", "unpack", "run", "expected", "actual", "Model", "COMPARED", "contextlib", "settings",
})  # fmt: skip


class Names:
    """Hands out unique names that are neither keywords, builtins nor names of the file itself.

    kept: names that nobody may get but who has them as its own.
    """

    def __init__(self, taken: Iterable[str] = (), kept: Iterable[str] = ()) -> None:
        self._taken = set(taken) | RESERVED
        self._kept = frozenset(kept)

    def take(self, wanted: str, own: str = "") -> str:
        """`wanted`, or the first of `wanted_1`, `wanted_2`... that is free. own: whose name it will be."""
        stem = wanted if wanted.isidentifier() else "v" + re.sub(r"\W", "_", wanted)
        name, count = stem, 0
        while not self._free(name, own):
            count += 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return name

    def inner(self) -> Names:
        """Names for the inside of a function, where those given out so far can be read."""
        return Names(self._taken, self._kept)

    def _free(self, name: str, own: str) -> bool:
        if name in self._taken or keyword.iskeyword(name) or hasattr(builtins, name):
            return False
        return name == own or name not in self._kept


def clean_name(node_name: str, overload: str = "") -> str:
    """`linear` of `linear_26`, `add` of `add__1`: FX counts names over the whole graph that was captured.

    overload: `sum.dim_IntList`, of a node that calls it; FX then makes the name of it, `sum_dim_int_list_3`.
    """
    name = re.sub(r"(?:_\d+)+$", "", node_name).rstrip("_") or node_name
    after_overload = name.replace("_", "") == re.sub(r"[._]", "", overload).lower()
    return overload.partition(".")[0].strip("_") if overload and after_overload else name


def input_names(placeholders: Sequence[str]) -> list[str]:
    """What each input is called: the last part of where Dynamo found it, `weight` of `self.conv.weight`, with
    the names of its modules in front as far as they tell two apart. Two without modules may share a name.
    """
    paths = [_path(name) for name in placeholders]
    depths = [1] * len(paths)
    while True:
        names = ["_".join(path[-depth:]) for path, depth in zip(paths, depths, strict=True)]
        count = Counter(names)
        longer = [
            i
            for i, name in enumerate(names)
            if (count[name] > 1 or not name.isidentifier()) and depths[i] < len(paths[i])
        ]
        if not longer:
            return names
        for i in longer:
            depths[i] += 1


def _path(placeholder: str) -> tuple[str, ...]:
    """`("conv", "weight")` of `l_self_modules_conv_parameters_weight_`.

    Dynamo spells the source of an input, `L['self']._modules['conv']._parameters['weight']`, with underscores
    (torch/_dynamo/output_graph.py, `create_graph_input`); the local that holds the modules says nothing. Any
    other name is that of a node whose value the input holds.
    """
    if not re.match(r"[lg]_\D", placeholder.lower()):
        return (clean_name(placeholder),)
    path = re.sub(r"__\d+$", "", placeholder[2:]).strip("_").lower()  # FX numbers a name that it gave before
    local, *members = re.split(r"_(?:modules|parameters|buffers)_", path)
    return tuple(members) or (local.removeprefix("self").strip("_") or local,)
