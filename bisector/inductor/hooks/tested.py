"""Prints which kinds of decision can be denied in the installed torch: `python -m
bisector.inductor.hooks.tested`, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import torch

from .. import hooks
from . import script_selftest, selftest, triton_selftest


def run() -> dict[str, Mapping[str, str]]:
    """off: kinds whose hooks do not work here; not_here: kinds of which there are no decisions here; each
    with the reason. A kind that needs a setting is tried too."""
    hooks.install()
    on_cuda = torch.cuda.is_available()
    tried = selftest.run() | script_selftest.run() | (triton_selftest.run() if on_cuda else {})
    off = {kind: reason for kind, reason in tried.items() if reason is not None}
    return {"off": off, "not_here": hooks.not_here({"cuda", "cpu"} if on_cuda else {"cpu"})}


if __name__ == "__main__":
    json.dump(run(), sys.stdout)
