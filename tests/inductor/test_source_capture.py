"""Generated source as text."""

from __future__ import annotations

import pytest
import torch
from torch._inductor.codecache import CppCodeCache

from bisector.inductor import source_capture


def tiny(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


def test_comments_paths_and_blank_lines_are_no_part_of_a_program() -> None:
    a = "# AOT ID: ['0_inference']\n\nx = 1  \n// source: %mul\n#include </tmp/ab/cdef.h>\n"
    b = "# AOT ID: ['7_inference']\nx = 1\n#include </var/x/yz.h>\n"
    assert source_capture.normalized(a) == source_capture.normalized(b) == "x = 1\n#include <PATH>"


def test_the_address_of_a_constant_is_no_part_of_a_program_and_its_shape_is() -> None:
    line = "weight = None  # device(type='cpu') torch.float32 (8,) (1,) "
    assert source_capture.normalized(line + "7f9e4c1") == source_capture.normalized(line + "7f9e4b0")
    assert source_capture.normalized(line) != source_capture.normalized(line.replace("8", "9"))


def test_the_address_of_a_function_in_a_message_is_no_part_of_a_program() -> None:
    line = 'assert_alignment(buf2, 16, "functools.partial(<function fn at {}>, Match())")'
    assert source_capture.normalized(line.format("0x7fb5a0e3cc20")) == source_capture.normalized(
        line.format("0x7ff95c744fe0")
    )


def test_programs_that_differ_have_different_digests() -> None:
    assert source_capture.digest(["x = 1"]) != source_capture.digest(["x = 2"])
    assert source_capture.digest(["x = 1", "y"]) != source_capture.digest(["x = 1"])


@pytest.mark.usefixtures("compiler")
def test_the_source_is_there_before_a_kernel_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a kernel was compiled")

    monkeypatch.setattr(CppCodeCache, "load_async", refuse)
    torch._dynamo.reset()
    sources = source_capture.source_only(lambda: torch.compile(tiny)(torch.ones(32)))
    assert len(sources) == 1 and "cpp_pybinding" in sources[0]


@pytest.mark.usefixtures("compiler")
def test_collecting_lets_the_compile_go_on() -> None:
    torch._dynamo.reset()
    with source_capture.collected() as sources:
        result = torch.compile(tiny)(torch.zeros(32))
    assert torch.equal(result, torch.zeros(32))
    assert len(sources) == 1


def test_constants_of_equal_bytes_are_one_and_what_cannot_be_read_equals_no_other() -> None:
    def fingerprint(value: object) -> str:
        return source_capture._fingerprint(value)

    weight = torch.arange(6.0).reshape(2, 3)
    assert fingerprint(weight) == fingerprint(weight.clone())
    assert fingerprint(weight) != fingerprint(weight + 1)
    packed = object()
    assert fingerprint(packed) != fingerprint(packed)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN's own tensors")
def test_a_constant_in_the_layout_of_a_library_is_read_as_a_plain_one() -> None:
    weight = torch.arange(6.0).reshape(2, 3)
    assert source_capture._fingerprint(weight.to_mkldnn()) == source_capture._fingerprint(weight)
