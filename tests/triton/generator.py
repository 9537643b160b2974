"""`python -m tests.triton.generator FOLDER`: one JSON line in, one out: Triton code of a small program.

In: "selftest", or {"program", "base", "members", "config", "ptx"}; out: {"selftest"}, or {"ids", "kernels":
[[name, source]…], "ptx", "sass": […]}.
A process of its own, because of what `pretended` patches.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from triton.tools.disasm import get_sass

from bisector.core.model import Base
from bisector.inductor import hooks, source_capture
from bisector.inductor.control import Control, activate
from bisector.inductor.gpu_code import pretended
from bisector.inductor.gpu_code.generated import KERNEL, assembly
from bisector.inductor.hooks import selftest
from tests.triton import programs


def answer(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    program, shapes, dtype = programs.PROGRAMS[request["program"]]
    control = None
    if request["base"] is not None:
        control = Control(Base(request["base"]), request["members"])
    torch._dynamo.reset()
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        inputs = [torch.empty(shape, dtype=dtype, device="cuda") for shape in shapes]
        with (
            pretended.settings(**request["config"]),
            pretended.visible(),
            nullcontext() if control is None else activate(control),
        ):
            sources = source_capture.source_only(lambda: torch.compile(program, dynamic=False)(*inputs))
    kernels = KERNEL.findall("\n".join(sources))
    ptx, sass = [], []
    if request["ptx"]:
        made = [assembly(source, folder) for _, source in kernels]
        ptx, sass = [asm["ptx"] for asm in made], [get_sass(asm["cubin"]) for asm in made]
    ids = [d.id for d in control.decisions()] if control is not None else []
    return {"ids": ids, "kernels": kernels, "ptx": ptx, "sass": sass, "off": hooks.disabled()}


def self_tested() -> dict[str, Any]:
    with FakeTensorMode(allow_non_fake_inputs=True):
        inputs = [torch.empty(32, 64, device="cuda") for _ in range(2)]
        with pretended.settings(), pretended.visible():
            return selftest.run_on_triton(lambda: inputs)


def main(folder: Path) -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the compilers print is no answer
    pretended.install(folder)
    hooks.install()
    for line in sys.stdin:
        try:
            request = json.loads(line)
            found = {"selftest": self_tested()} if request == "selftest" else answer(request, folder)
        except BaseException:  # noqa: BLE001 - the test that asked shows the trace
            found = {"failed": traceback.format_exc()}
        print(json.dumps(found), file=out, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
