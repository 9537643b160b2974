"""Which kinds of decision can be denied: `python -m bisector.inductor.hooks.tested` prints it of the
installed torch, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping

import torch

from ... import wire
from ...core.protocol import HooksTested
from .. import hooks
from . import selftest


def hooks_tested(tried: Mapping[str, str | None], devices: Collection[str]) -> HooksTested:
    """tried: by kind why its hooks do not work, None where they do. devices: types, of the subject; where
    CUDA is up, the hooks of its kernels are tried too."""
    on_triton = selftest.run_on_triton() if torch.cuda.is_initialized() else {}
    off = {kind: reason for kind, reason in {**tried, **on_triton}.items() if reason is not None}
    return HooksTested(off, hooks.not_here(devices))


def main() -> None:
    """A kind that needs a setting is tried too."""
    hooks.install()
    tried, devices = selftest.run() | selftest.run_on_scripts(), ["cpu"]
    if torch.cuda.is_available():
        torch.cuda.init()
        devices.append("cuda")
    json.dump(wire.dump(hooks_tested(tried, devices)), sys.stdout)


if __name__ == "__main__":
    main()
