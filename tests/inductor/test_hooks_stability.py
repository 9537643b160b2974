"""What the search relies on: hooks that ask nothing change nothing, and IDs are the same everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from bisector.inductor import control
from bisector.inductor.control import Control
from tests.inductor.helpers import allow, allow_all, compile_only, deny

pytestmark = pytest.mark.usefixtures("compiler")


def program(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    scores = torch.softmax(F.gelu(x @ w) * 3, -1)
    low = scores.half() * 1.5
    return low.float().sum(-1), F.layer_norm(low.float(), (16,)), scores.amin(0)


def inputs() -> list[torch.Tensor]:
    return [torch.ones(16, 16), torch.ones(16, 16)]


# In a process of its own: the source before the hooks are installed, and the IDs after.
CHILD = """
import json, torch
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
inductor_config.fx_graph_cache = functorch_config.enable_autograd_cache = False
inductor_config.compile_threads = 1
torch.set_num_threads(2)
from tests.inductor.helpers import compile_only
from tests.inductor.test_hooks_stability import inputs, program
bare = compile_only(program, inputs()).source
from bisector.inductor import hooks
from bisector.inductor.control import Control
hooks.install()
print(json.dumps([bare, compile_only(program, inputs(), Control()).ids]))
"""


@pytest.mark.live
def test_another_process_has_the_same_source_without_hooks_and_the_same_ids_with_them() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.run(
        [sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, check=True
    )
    bare, ids = json.loads(child.stdout.splitlines()[-1])
    listed = compile_only(program, inputs(), Control())
    assert compile_only(program, inputs()).source == bare
    assert listed.source == bare
    assert listed.ids == ids


@pytest.mark.live
def test_denying_one_decision_leaves_the_ids_of_other_dynamo_nodes_alone() -> None:
    ids = compile_only(program, inputs(), Control()).ids
    assert len(ids) == len(set(ids))
    kinds = ("inline:", "vec:", "cast:", "match:", "pass:")
    for member in [i for i in ids if i.startswith(kinds)][::4]:  # each fourth: all of them take too long
        node = member.rpartition("@")[2]
        after = compile_only(program, inputs(), deny(member)).ids
        assert member in after
        lost = {i for i in ids if i not in after and not i.startswith(("fuse:", "vec:", "cast:"))}
        assert {i for i in lost if i.rpartition("@")[2] != node} == set(), member


def test_all_decisions_over_the_plain_baseline_make_the_default_compile() -> None:
    default = compile_only(program, inputs(), Control())
    allowed = compile_only(program, inputs(), allow_all(*default.ids))
    assert allowed.source == default.source
    assert allowed.ids == default.ids


def test_a_disabled_kind_is_neither_asked_nor_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    default = compile_only(program, inputs(), Control())
    kinds = {decision.kind for decision in default.control.decisions()}
    assert {"decomp", "match", "lower", "inline", "fuse", "cast", "vec"} <= kinds
    monkeypatch.setattr(control, "_disabled", dict.fromkeys(kinds, "a test"))
    off = compile_only(program, inputs(), allow())
    assert off.ids == []
    assert off.source == default.source
