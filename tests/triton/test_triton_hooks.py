"""The decisions of the Triton backend, in generated code and PTX for a device that is not there.

Nothing runs on a GPU here: shown is that a denial changes what it names and nothing else.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton", reason="Triton is not installed: no code of its backend can be generated")
pytestmark = pytest.mark.skipif(
    torch.version.cuda is not None or torch.version.hip is not None,
    reason="the pretended device was tried with a torch for the CPU alone; tests/gpu is for the real one",
)

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Generated:
    """ids: the decisions, in order; kernels: (name, source); ptx, sass: of each kernel, if asked for."""

    ids: list[str]
    kernels: list[tuple[str, str]]
    ptx: list[str]
    sass: list[str]

    def of_kind(self, *kinds: str) -> list[str]:
        return [i for i in self.ids if i.partition(":")[0] in kinds]

    @property
    def arithmetic(self) -> str:
        """The lines of all kernels, without their options."""
        return "\n".join(source[source.index("@triton.jit") :] for _, source in self.kernels)

    def options(self, name: str) -> list[bool]:
        return [f"'{name}': True" in source for _, source in self.kernels]

    def count(self, instruction: str) -> int:
        """How often the instruction stands in the PTX, or, in capitals, in the machine code."""
        texts = self.sass if instruction.isupper() else self.ptx
        return sum(len(re.findall(rf"\b{re.escape(instruction)}\b", text)) for text in texts)


class Generator:
    """The process with the pretended device."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.triton.generator", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder), "TRITON_CACHE_DIR": str(folder / "t")},
        )

    def __call__(
        self,
        program: str,
        members: Sequence[str] = (),
        base: str | None = "default",
        ptx: bool = False,
        **config: Any,
    ) -> Generated:
        named = {name.replace("__", "."): value for name, value in config.items()}
        request = {
            "program": program, "base": base, "members": list(members), "config": named, "ptx": ptx
        }  # fmt: skip
        found = self.ask(request)
        assert found["off"] == {}
        return Generated(found["ids"], [tuple(k) for k in found["kernels"]], found["ptx"], found["sass"])


    def ask(self, request: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        found = json.loads(self.process.stdout.readline() or '{"failed": "the generator died"}')
        assert "failed" not in found, found["failed"]
        return found


@pytest.fixture(scope="module")
def generate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generator]:
    made = Generator(tmp_path_factory.mktemp("generated"))
    yield made
    assert made.process.stdin is not None
    made.process.stdin.close()
    made.process.wait(timeout=30)


def test_listing_the_decisions_changes_no_kernel(generate: Generator) -> None:
    for program in ("two_products", "shifted_exp", "divided"):
        assert generate(program).kernels == generate(program, base=None).kernels


def test_products_and_kernels_are_listed_by_node(generate: Generator) -> None:
    products, whole = ["fma:second@first", "fma:sub@third"], ["fma:in-kernel@top", "fma:in-kernel@sum_1"]
    assert generate("two_products").of_kind("fma") == [*products, "fma:in-kernel@sub"]
    assert generate("shifted_exp").of_kind("fma") == ["fma:sub@mul_1", *whole]
    assert generate("unrolled_exp").of_kind("fma") == ["fma:sub@mul_1", whole[1]]


def test_a_denied_product_is_rounded_and_the_other_is_still_contracted(generate: Generator) -> None:
    default = generate("two_products", ptx=True)
    denied = generate("two_products", ["fma:second@first"], ptx=True)
    assert denied.ids == default.ids
    each = default.count("fma.rn.f32") // 2
    assert each > 0 and default.count("mul.rn.f32") == 0
    assert denied.count("fma.rn.f32") == denied.count("mul.rn.f32") == each
    assert denied.options("enable_fp_fusion") == [True]


def test_the_assembler_does_not_contract_what_was_denied(generate: Generator) -> None:
    products, kernel = ["fma:second@first", "fma:sub@third"], ["fma:in-kernel@sub"]
    each = generate("two_products", ptx=True).count("FFMA") // 2
    assert each > 0
    assert generate("two_products", products[:1], ptx=True).count("FFMA") == each
    assert generate("two_products", products, ptx=True).count("FFMA") == 0
    assert generate("two_products", kernel, ptx=True).count("FFMA") == 0


@pytest.mark.parametrize("member", ["fma:add@truediv", "fma:in-kernel@mul"])
def test_what_the_assembler_contracts_next_to_a_division_is_a_decision_of_its_own_and_of_the_kernel(
    generate: Generator, member: str
) -> None:
    default, denied = (generate("quotient", m, ptx=True) for m in ([], [member]))
    assert default.of_kind("fma") == denied.of_kind("fma") == ["fma:add@truediv", "fma:in-kernel@mul"]
    assert default.count("fma.rn.f32") == 0
    assert default.count("FFMA") > denied.count("FFMA")
    assert denied.options("enable_fp_fusion") == [member == "fma:add@truediv"]


def test_over_the_plain_baseline_a_quotient_is_contracted_where_its_kernel_may_be(
    generate: Generator,
) -> None:
    one_kernel = ["inline:aten.div@truediv", "inline:aten.add@add", "vec:division@truediv"]
    site, kernel = "fma:add@truediv", "fma:in-kernel@mul"
    neither, of_site, of_kernel, both = (
        generate("quotient", [*one_kernel, *more], base="plain", ptx=True).count("FFMA")
        for more in ([], [site], [kernel], [site, kernel])
    )
    assert neither == of_site == of_kernel < both


def test_a_product_beside_a_denied_quotient_is_still_contracted(generate: Generator) -> None:
    default, denied = (generate("both", m, ptx=True) for m in ([], ["fma:add@truediv"]))
    assert default.of_kind("fma") == ["fma:add@truediv", "fma:add@mul", "fma:in-kernel@add"]
    assert default.count("fma.rn.f32") == denied.count("fma.rn.f32") > 0
    assert generate("both", ["fma:add@truediv", "fma:add@mul"], ptx=True).count("fma.rn.f32") == 0


def test_the_rounding_of_a_product_does_not_flush_denormals(generate: Generator) -> None:
    denied = generate("two_products", ["fma:second@first", "fma:sub@third"], ptx=True)
    assert denied.count("fma.rn.f32") == 0
    assert "mul.rn.ftz" not in denied.ptx[0]


def test_a_denied_kernel_contracts_nothing_and_the_other_kernel_still_does(generate: Generator) -> None:
    default = generate("two_kernels", ptx=True)
    names = default.of_kind("fma")
    kernels = [i for i in names if i.startswith("fma:in-kernel")]
    assert default.options("enable_fp_fusion") == [True, True]
    denied = generate("two_kernels", [kernels[-1]], ptx=True)
    assert denied.of_kind("fma") == names
    assert denied.options("enable_fp_fusion") == [True, False]
    assert denied.arithmetic == default.arithmetic
    assert default.count("fma.rn.f32") > 0 and denied.count("fma.rn.f32") == 0


def test_the_product_of_a_sum_is_a_decision_in_a_block_and_in_a_loop(generate: Generator) -> None:
    for members in ([], ["unroll:persistent@sum_1"]):
        assert "fma:sum_1@mul" in generate("dot", members).ids
        denied = generate("dot", [*members, "fma:sum_1@mul"], ptx=True)
        assert denied.count("fma.rn.f32") == 0 and denied.count("mul.rn.f32") > 0


def test_over_the_plain_baseline_one_product_is_contracted_alone(generate: Generator) -> None:
    inlined = ["inline:aten.mul@first", "inline:aten.add@second", "inline:aten.mul@third"]
    plain = generate("two_products", inlined, "plain", ptx=True)
    assert plain.options("enable_fp_fusion") == [False] and plain.count("fma.rn.f32") == 0
    allowed = generate("two_products", [*inlined, "fma:sub@third"], "plain", ptx=True)
    assert allowed.options("enable_fp_fusion") == [False]
    assert allowed.count("fma.rn.f32") > 0
    assert "tl.fma(" in allowed.arithmetic and allowed.arithmetic.count("mul.rn.f32") == 1


def test_the_plain_baseline_with_everything_allowed_is_the_default(generate: Generator) -> None:
    for program in ("two_products", "shifted_exp", "divided", "dot"):
        default = generate(program)
        allowed = [i for i in default.ids if not i.startswith("lower:")]  # those are denied over it as well
        assert generate(program, allowed, "plain").kernels == default.kernels


def test_a_setting_that_forbids_contraction_leaves_no_decision(generate: Generator) -> None:
    assert generate("two_products", emulate_precision_casts=True).of_kind("fma") == []


@pytest.mark.parametrize(
    ("member", "before", "after"),
    [
        ("vec:division@truediv", " / ", "triton.language.div_rn("),
        ("vec:own_log@log", "tl_math.log(", "libdevice.log("),
    ],
)
def test_a_denied_operation_is_written_in_its_exact_form(
    generate: Generator, member: str, before: str, after: str
) -> None:
    default, denied = generate("divided"), generate("divided", [member])
    assert member in default.ids
    assert before in default.arithmetic and after not in default.arithmetic
    assert after in denied.arithmetic and before not in denied.arithmetic
    assert len(denied.arithmetic.splitlines()) == len(default.arithmetic.splitlines())


def test_the_exponential_is_a_decision_under_fast_math_alone(generate: Generator) -> None:
    assert "vec:own_exp@exp" not in generate("shifted_exp").ids
    assert "vec:own_exp@exp" in generate("shifted_exp", use_fast_math=True).ids
    assert "libdevice.exp(" in generate("shifted_exp", ["vec:own_exp@exp"], use_fast_math=True).arithmetic


def test_flushing_of_denormals_belongs_to_a_kernel_that_calls_the_library(generate: Generator) -> None:
    default = generate("shifted_exp")
    assert [i for i in default.ids if i.startswith("vec:ftz")] == ["vec:ftz@sum_1"]
    denied = generate("shifted_exp", ["vec:ftz@sum_1"])
    assert (default.options("disable_ftz"), denied.options("disable_ftz")) == ([False], [True])
    assert denied.arithmetic == default.arithmetic and denied.ids == default.ids
    assert not [i for i in generate("two_products").ids if i.startswith("vec:ftz")]


def test_a_reduction_in_one_block_becomes_a_loop(generate: Generator) -> None:
    default, denied = generate("dot"), generate("dot", ["unroll:persistent@sum_1"])
    assert default.kernels[0][0].startswith("triton_per_") and denied.kernels[0][0].startswith("triton_red_")
    assert denied.ids == default.ids


def test_a_reduction_by_several_blocks_becomes_one_of_a_single_block(generate: Generator) -> None:
    cooperative = {"triton__cooperative_reductions": True}
    default = generate("long_dot", **cooperative)
    assert "split:cooperative@sum_1" in default.ids and "RSPLIT" in default.arithmetic
    denied = generate("long_dot", ["split:cooperative@sum_1"], **cooperative)
    assert "RSPLIT" not in denied.arithmetic and len(denied.kernels) == 1


def test_a_stored_half_is_rounded_for_its_user_in_the_same_kernel(generate: Generator) -> None:
    default, denied = generate("halves"), generate("halves", ["cast:float16@rounded"])
    assert "cast:float16@rounded" in default.ids
    assert ".to(tl.float16).to(tl.float32)" not in default.arithmetic
    assert denied.arithmetic.count(".to(tl.float16).to(tl.float32)") == 1


def test_a_half_that_is_inlined_is_rounded_before_it_is_widened(generate: Generator) -> None:
    default, denied = (generate("inlined_half", m, ptx=True) for m in ([], ["cast:float16@mul"]))
    assert "cast:float16@mul" in default.ids
    assert ".to(tl.float16)" not in default.arithmetic and ".to(tl.float16)" in denied.arithmetic
    # LLVM may multiply in halves then: the product of two halves has the same bits either way.
    rounding = r"(?:cvt\.rn\.f16|mul\S*\.f16)"
    assert not re.search(rounding, default.ptx[0]) and re.search(rounding, denied.ptx[0])


def test_a_pattern_that_is_for_cuda_alone_is_a_decision_under_its_name(generate: Generator) -> None:
    default = generate("scale_codes")
    (member,) = default.of_kind("match")
    assert "e8m0" in member and "check_fn" not in member
    denied = generate("scale_codes", [member])
    assert "log2" not in default.arithmetic and "log2" in denied.arithmetic


def test_the_self_test_finds_that_every_hook_of_the_backend_bites(generate: Generator) -> None:
    assert generate.ask("selftest")["selftest"] == {
        "fma on Triton": None, "vec on Triton": None, "cast on Triton": None, "reductions on Triton": None
    }  # fmt: skip
