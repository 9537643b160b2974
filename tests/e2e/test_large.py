"""Graphs of more calls than are searched whole: a region is found from the trace, and the whole confirms."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.helpers import minimized

LAYERS = """
import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
torch.manual_seed(0)


def layers(x, w):
    for i in range(16):
        x = x + (torch.relu(x @ w) if i == 9 else torch.tanh(x @ w))
        x = x / x.abs().amax(-1, keepdim=True)
    return x


torch.compile(layers)(torch.randn(8, 32), torch.randn(32, 32))
"""

# What the erf leaves in the last bit shows 40 calls later, where a step takes it.
TWO_CALLS_FAR_APART = """
import torch

torch.manual_seed(0)


def chain(x):
    for i in range(60):
        if i == 8:
            x = torch.erf(x)
        elif i == 48:
            x = torch.ceil(x * 4096)
        else:
            x = x * 1.0078125 if i % 2 else x + 0.001953125
    return x


torch.compile(chain)(torch.rand(65536))
"""


@pytest.mark.parametrize(
    ("script", "culprit", "most_ops"),
    [
        pytest.param(LAYERS, "relu", 1, id="one of many layers", marks=pytest.mark.slow),
        pytest.param(TWO_CALLS_FAR_APART, "erf", 4, id="two calls far apart", marks=pytest.mark.slow),
    ],
)
def test_what_repairs_a_region_is_confirmed_on_the_whole(
    script: str, culprit: str, most_ops: int, tmp_path: Path
) -> None:
    result = minimized(script, tmp_path)
    assert any("searched in a region" in note for note in result["text_notes"])
    assert not any("the whole was searched" in note for note in result["text_notes"])
    assert result["minimal"]["n_ops"] <= most_ops
    assert f"aten.{culprit}" in result["minimal"]["ops"]
    confirmed = [repair["decisions"] for repair in result["repairs"] if repair["confirmed"]]
    assert confirmed
    assert all(culprit in decision for repair in confirmed for decision in repair)
    assert result["repro"] == "repro.py"
    assert result["probes"]["total"] <= 120
