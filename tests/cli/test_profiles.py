"""`--profile`: named tolerances, the examples, and files of users."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from bisector.cli import command_line
from bisector.core.criterion import DTYPE_TOLERANCES
from bisector.core.dtypes import CODES, INTEGERS
from bisector.core.options import Options
from bisector.core.recorded import RecordedCall
from bisector.errors import BadOption
from bisector.explain.criteria import criterion_of_call

CALL = RecordedCall(0, 0, "f", 1, False, {"*": (0.5, 0.5)}, "digest", 1, ("cpu",), {}, "inductor")


def test_the_named_criteria_and_the_examples_all_load() -> None:
    assert command_line.names()[:5] == ["default", "strict", "bitwise", "training", "low-precision"]
    assert len(command_line.names()) >= 8
    for name in command_line.names():
        assert command_line.load(name).name == name


def test_the_strict_criterion_is_two_units_in_the_last_place() -> None:
    strict = command_line.load("strict").tolerances
    assert strict is not None
    for dtype, (rtol, atol) in strict.items():
        ulps = rtol / torch.finfo(getattr(torch, dtype)).eps
        assert 1.9 < ulps < 2.01
        assert atol == 0.0


def test_bitwise_names_every_dtype_that_has_a_tolerance_by_default() -> None:
    bitwise = command_line.load("bitwise")
    assert bitwise.tolerances == dict.fromkeys(DTYPE_TOLERANCES, (0.0, 0.0))
    assert bitwise.signed_zero


def test_a_file_gives_tolerances_flags_and_options(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "criterion: {tolerances: {float32: [1, 0.5]}}\nconfig: {cpp.simdlen: 1}\ntrain: true\nrepeat: 3\n"
    )
    found = command_line.load(str(path))
    assert (found.name, found.tolerances) == ("mine.yaml", {"float32": (1.0, 0.5)})
    assert found.options == {"config": {"inductor.cpp.simdlen": 1}, "train": True, "repeat": 3}


def test_a_profile_without_a_criterion_leaves_the_script_its_own() -> None:
    frozen = command_line.load("frozen")
    options = Options("x.py", profile=frozen.name, tolerances=frozen.tolerances)
    assert criterion_of_call(options, CALL.tolerances).source == "the script's own comparison"


def test_a_criterion_stands_over_the_scripts_own_comparison_and_under_the_command_line() -> None:
    training = command_line.load("training")
    options = Options("x.py", profile="training", tolerances=training.tolerances)
    criterion = criterion_of_call(options, CALL.tolerances)
    assert criterion.source == "profile training"
    assert criterion.tolerance("output[0]", "float32") == (1e-3, 1e-3)
    told = dataclasses.replace(options, rtol=0.0, atol=0.25)
    assert criterion_of_call(told, CALL.tolerances).tolerance("output[0]", "float32") == (0.0, 0.25)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("flags: {a: 1}", "unknown key flags"),
        ("train: 1", "train cannot be 1"),
        ("repeat: true", "repeat cannot be True"),
        ("criterion: strictest", "there is no criterion strictest"),
        ("criterion: {tolerances: {float32: 1}}", "float32 needs"),
        ("criterion: {tolerances: {float32: [1, -1]}}", "float32 cannot be held to -1"),
        ("criterion: {tolerances: {float32: [.inf, 0]}}", "float32 cannot be held to inf"),
        ("criterion: {tolerances: {float32: [0, .nan]}}", "float32 cannot be held to nan"),
        ("criterion: {tolerances: {float32: [true, 0]}}", "float32 cannot be held to True"),
        ("criterion: {tolerances: {float32: [1e-3, 0]}}", "held to '1e-3'; write .* 1.0e-3"),
        (f"criterion: {{tolerances: {{float32: [1{'0' * 400}, 0]}}}}", "float32 cannot be held to 1000"),
        ("criterion: {tolerances: {flaot32: [1, 1]}}", "no dtype flaot32; one of float16, bfloat16, float32"),
        ("criterion: {tolerances: {torch.float32: [1, 1]}}", "no dtype torch.float32; one of"),
        ("criterion: {tolerances: {1: [1, 1]}}", "no dtype 1; one of"),
        ("criterion: {tolerances: [1, 1]}", "tolerances cannot be"),
        ("criterion: {tolerence: {float32: [1, 1]}}", "unknown key tolerence; it may have"),
        ("criterion: {signed_zero: 1}", "signed_zero cannot be 1"),
        ("config: {1: 2}", "config cannot name 1"),
        ("- 1", "no settings in it"),
        ("a: [", "no YAML"),
    ],
)
def test_a_file_that_is_no_profile_is_refused_in_a_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(BadOption, match=said) as error:
        command_line.load(str(path))
    assert str(error.value).startswith("--profile ") and "mine.yaml: " in str(error.value)
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


@pytest.mark.parametrize("dtype", [*DTYPE_TOLERANCES, *INTEGERS, *CODES])
def test_a_profile_may_name_whatever_dtype_torch_has(dtype: str, tmp_path: Path) -> None:
    assert isinstance(getattr(torch, dtype), torch.dtype)
    path = tmp_path / "mine.yaml"
    path.write_text(f"criterion: {{tolerances: {{{dtype}: [0, 1]}}}}\n")
    assert command_line.load(str(path)).tolerances == {dtype: (0.0, 1.0)}


def test_a_name_that_there_is_none_of_lists_those_that_there_are() -> None:
    with pytest.raises(BadOption, match="default, strict, bitwise"):
        command_line.load("loose")
