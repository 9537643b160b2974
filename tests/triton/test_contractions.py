"""Contractions that are listed for programs whose products were counted by hand, and against a control: what
in the machine code multiplies and adds at once, and does not where neither compiler may contract.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from tests.triton.test_triton_hooks import ROOT, pytestmark  # noqa: F401 - the same is needed

pytest.importorskip("triton", reason="Triton is not installed: no code of its backend can be generated")

# By hand: which product goes into which sum, and how many lines of the kernel do that. No name where it is a
# part of a reduction.
SITES: dict[str, Counter[str]] = {
    "two_products": Counter({"LLVM first second": 1, "LLVM third sub": 1}),
    "shifted_exp": Counter({"LLVM mul_1 sub": 1}),
    # Four exponentials are added up, each of which ends with a product.
    "unrolled_exp": Counter({"LLVM mul sub": 4, "LLVM  sum_1": 3}),
    "two_kernels": Counter({"LLVM mul_1 add": 1, "LLVM mul_1 sub": 1}),
    "dot": Counter({"LLVM  ": 1}),
    "long_dot": Counter({"LLVM  ": 1}),
    "divided": Counter({"ptxas truediv add": 1}),
    "quotient": Counter({"ptxas truediv add": 1}),
    "both": Counter({"LLVM mul add": 1}),
    "between": Counter({"LLVM mul add": 1}),
    "squares": Counter({"LLVM mul add": 1}),
    "doubles": Counter({"LLVM mul sub": 1}),
    "rms": Counter({"LLVM  ": 1, "ptxas mean add": 1}),
    "softmax": Counter({"LLVM softmax.mul softmax.sub_1": 1, "LLVM  ": 1}),
    "gelu": Counter({"LLVM gelu.mul_2 add": 1}),
    "inlined_half": Counter(), "halves": Counter(), "scale_codes": Counter(), "no_product": Counter(),
    "product_alone": Counter(), "kept_apart": Counter(),
}  # fmt: skip
@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("contracting")
    done = subprocess.run(
        [sys.executable, "-m", "tests.triton.contracting", str(folder)], cwd=ROOT, check=False,
        capture_output=True, text=True, env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("program", SITES)
def test_what_is_contracted_is_listed_and_nothing_else(program: str, listed: dict[str, Any]) -> None:
    sites = listed[program]["listed"].get("sites", [])
    told = (" ".join([s["contraction"]["by"], s["product"], s["consumer"]]) for s in sites)
    assert Counter(told) == SITES[program]
    counted: Counter[str] = Counter()
    for site in sites:
        counted[site["contraction"]["kernel"]] += len(site["contraction"]["instructions"])
    assert {kernel: counted[kernel] for kernel in listed[program]["control"]} == listed[program]["control"]


@pytest.mark.parametrize("program", [name for name in SITES if SITES[name]])
def test_each_contraction_has_a_lever(program: str, listed: dict[str, Any]) -> None:
    for site in listed[program]["listed"]["sites"]:
        assert site["denied_by"], site
        assert "inductor.emulate_precision_casts=True" in site["settings"]
