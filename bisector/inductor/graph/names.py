"""Names a person would give to the inputs that Dynamo captured."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable

# Names that the emitted file uses itself.
RESERVED = frozenset({
    "torch", "F", "math", "operator", "os", "sys", "base64", "zlib", "inf", "nan", "self", "fn", "inputs",
    "grad_outputs", "unpack", "run", "difference", "main", "cannot_tell", "Model", "FIXED", "COMPARED",
})  # fmt: skip


class Names:
    """Hands out unique names that are neither keywords, builtins nor names of the file itself."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken) | RESERVED

    def take(self, wanted: str) -> str:
        stem = wanted if wanted.isidentifier() else "v" + re.sub(r"\W", "_", wanted)
        name, count = stem, 0
        while name in self._taken or keyword.iskeyword(name) or hasattr(builtins, name):
            count += 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return name


def placeholder_name(node_name: str) -> str:
    """`x` of `l_x_`, `conv_weight` of `l_self_modules_conv_parameters_weight_`.

    Dynamo spells the source of an input, `L['self']._modules['conv']._parameters['weight']`, with underscores
    (torch/_dynamo/output_graph.py, `create_graph_input`); the module tables and the local's name say nothing.
    """
    if not re.match(r"[lLgG]_", node_name):
        return node_name
    path = re.sub(r"__\d+$", "", node_name[2:]).strip("_")  # FX numbers a name that it has given before
    tables = r"(?:modules|parameters|buffers)_"
    member = re.search(rf"(?:^|_){tables}", path)
    if member:
        path = path[member.end() :]
        path = re.sub(rf"(?<=_){tables}", "", path)
    return path.strip("_").lower() or node_name
