"""The function of a repro as a module that holds its constants: freezing folds what a module holds."""

from __future__ import annotations

import re
import textwrap

from .source import INDENT, FunctionSource

CLASS = "Model"
_HEAD = '''class {name}(torch.nn.Module):
    """Holds what `freezing` folds."""

    def __init__(self):
        super().__init__()
'''


def module_source(function: FunctionSource) -> tuple[str, str]:
    """The class, after the functions that the graph calls; and the line that makes the repro's function of
    it, which stands where the constants are known."""
    *others, main = function.text.split("\n\n")
    held = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, function.constants))})(?!\w)")
    method = held.sub(r"self.\1", main.replace(f"def {function.name}(", "def forward(self, ", 1))
    buffers = [f'self.register_buffer("{name}", {name})' for name in function.constants]
    text = _HEAD.format(name=CLASS) + textwrap.indent("\n".join(buffers), " " * 2 * INDENT)
    text += "\n\n" + textwrap.indent(method.replace("(self, )", "(self)"), " " * INDENT)
    return "\n\n\n".join([*others, text]), f"{function.name} = {CLASS}()\n"
