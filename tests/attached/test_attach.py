"""A fuzzer's oracle with `attach` around it, and the bundles that it leaves."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import bisector
from tests.attached.helpers import round_trip, run
from tests.command import numbisect

pytestmark = pytest.mark.usefixtures("warm_workers")


@pytest.fixture(autouse=True)
def _own_compiles() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compare(program: Callable[..., Any], *inputs: Any, **tolerance: float) -> None:
    torch.testing.assert_close(torch.compile(program)(*inputs), program(*inputs), **tolerance)


def description(bundle: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((bundle / "bundle.json").read_text())
    return found


def test_a_divergence_leaves_a_bundle_and_fuzzing_goes_on(tmp_path: Path) -> None:
    with bisector.attach(tmp_path / "failures", note={"seed": 7}) as scope:
        compare(round_trip, torch.rand(16))
    (bundle,) = scope.bundles
    told = description(bundle)
    assert told["note"] == {"seed": 7}
    assert told["oracle"] == "AssertionError: Tensor-likes are not close!"
    assert told["calls"] == [{"inputs": [{"shape": [16], "dtype": "float32"}]}]
    assert told["environment"]["torch"] == torch.__version__


def test_what_agrees_leaves_nothing(tmp_path: Path) -> None:
    with bisector.attach(tmp_path / "failures") as scope:
        compare(torch.relu, torch.rand(16))
    assert (scope.bundles, (tmp_path / "failures").exists()) == ([], False)


@pytest.mark.live
def test_the_bundle_diverges_in_another_process_and_folder_as_it_did_here(tmp_path: Path) -> None:
    with bisector.attach(tmp_path / "failures") as scope:
        compare(round_trip, torch.rand(16))
    elsewhere = tmp_path / "moved" / "elsewhere"
    shutil.copytree(scope.bundles[0], elsewhere)
    shutil.rmtree(tmp_path / "failures")
    assert "Tensor-likes are not close" in run(sys.executable, "case.py", folder=elsewhere).stderr
    done = numbisect("check", elsewhere, "--json", "-", folder=tmp_path)
    assert done.returncode == 1, done.stderr
    (output,) = json.loads(done.stdout)["verdict"]["outputs"]
    assert output["shape"] == [16]


def test_the_tolerance_is_that_of_the_comparison_that_failed(tmp_path: Path) -> None:
    with bisector.attach(tmp_path) as scope:
        compare(round_trip, torch.rand(16), rtol=0.0, atol=1e-7)
    assert "rtol=0.0, atol=1e-07" in (scope.bundles[0] / "case.py").read_text()


def test_the_oracles_own_tolerance_stands_above_it(tmp_path: Path) -> None:
    with bisector.attach(tmp_path, rtol=1e-9, atol=1e-9) as scope:
        compare(round_trip, torch.rand(16), rtol=0.0, atol=1e-7)
    assert "rtol=1e-09, atol=1e-09" in (scope.bundles[0] / "case.py").read_text()


def test_a_decorated_oracle_fails_by_an_assertion_or_by_false(tmp_path: Path) -> None:
    @bisector.attach(tmp_path)
    def asserts(x: torch.Tensor) -> str:
        compare(round_trip, x)
        return "passed"

    @bisector.attach(tmp_path)
    def says(x: torch.Tensor) -> bool:
        return bool(torch.allclose(torch.compile(round_trip)(x), round_trip(x)))

    assert (asserts(torch.zeros(4)), asserts(torch.rand(4))) == ("passed", None)
    assert (says(torch.zeros(5)), says(torch.rand(5))) == (True, False)
    assert sorted(b.name.rpartition("-")[0] for b in tmp_path.iterdir()) == ["asserts", "says"]


def test_a_crash_and_an_assertion_about_nothing_compiled_pass(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), bisector.attach(tmp_path):
        compare(round_trip, torch.rand(4), rtol=1 / 0)
    with pytest.raises(AssertionError, match="eager alone"), bisector.attach(tmp_path):
        raise AssertionError("eager alone")
    assert list(tmp_path.iterdir()) == []


def test_the_assertion_goes_on_where_that_is_asked(tmp_path: Path) -> None:
    with pytest.raises(AssertionError), bisector.attach(tmp_path, reraise=True):
        compare(round_trip, torch.rand(4))
    assert len(list(tmp_path.iterdir())) == 1


def test_the_same_failure_is_kept_once(tmp_path: Path) -> None:
    x = torch.rand(4)
    for _ in range(2):
        with bisector.attach(tmp_path) as scope:
            compare(round_trip, x)
        assert len(scope.bundles) == 1
    assert len(list(tmp_path.iterdir())) == 1
    with bisector.attach(tmp_path):
        compare(round_trip, x + 1)
    assert len(list(tmp_path.iterdir())) == 2, "the same program on other inputs is another failure"


def test_a_function_compiled_long_before_is_kept_too(tmp_path: Path) -> None:
    with bisector.attach(tmp_path):
        pass  # from here on compiles are told
    compiled, x = torch.compile(round_trip), torch.rand(4)
    compiled(x)
    with bisector.attach(tmp_path) as scope:
        torch.testing.assert_close(compiled(x), round_trip(x))
    assert len(scope.bundles) == 1


def test_inputs_are_kept_as_they_were_before_the_call(tmp_path: Path) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x.mul_(0)
        return x.half().float() + torch.ones(4) / 3

    x = torch.arange(4.0)
    with bisector.attach(tmp_path, reraise=False) as scope:
        torch.testing.assert_close(torch.compile(program)(x), torch.zeros(4))
    (call,) = torch.load(scope.bundles[0] / "inputs.pt", weights_only=True)["calls"]
    assert call["inputs"][0].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_large_inputs_that_were_written_into_are_said_to_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bisector.attached.recording.COPIED_BYTES", 0)
    x = torch.rand(4)
    compiled = torch.compile(round_trip)
    scope = bisector.attach(tmp_path)
    with pytest.raises(AssertionError), scope as left:
        actual = compiled(x)
        x.zero_()
        torch.testing.assert_close(actual, round_trip(x))
    assert "written into after the call" in str(left.problem)


def test_only_the_calls_that_failed_are_kept(tmp_path: Path) -> None:
    with bisector.attach(tmp_path) as scope:
        compare(torch.relu, torch.rand(3))
        compare(torch.sin, torch.rand(4))
        compare(round_trip, torch.rand(5))
    assert description(scope.bundles[0])["calls"] == [{"inputs": [{"shape": [5], "dtype": "float32"}]}]


def test_modes_settings_and_options_are_those_of_the_call(tmp_path: Path) -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).float().half().float()

    x, w = torch.rand(4, 4), torch.rand(4, 4)
    compiled = torch.compile(program, options={"max_autotune": False, "epilogue_fusion": False})
    with torch._inductor.config.patch(fallback_random=True), bisector.attach(tmp_path) as scope:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            actual = compiled(x, w)
        torch.testing.assert_close(actual, torch.zeros(4, 4))
    text = (scope.bundles[0] / "case.py").read_text()
    assert "torch._inductor.config.fallback_random = True" in text
    assert 'with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):' in text
    assert '"epilogue_fusion": False' in text


def test_settings_that_the_oracle_makes_and_leaves_are_those_of_the_compile(tmp_path: Path) -> None:
    with bisector.attach(tmp_path) as scope, torch._inductor.config.patch(fallback_random=True):
        compare(round_trip, torch.rand(16))
    assert "config.fallback_random = True" in (scope.bundles[0] / "case.py").read_text()


def test_what_goes_wrong_in_keeping_leaves_the_program_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("no such thing")

    for name, said in (("torch_state.default_values", "graph"), ("tensors.snapshot", "inputs")):
        torch._dynamo.reset()
        with monkeypatch.context() as patch, pytest.raises(AssertionError):
            patch.setattr(f"bisector.inductor.{name}", broken)
            with bisector.attach(tmp_path) as scope:
                compare(round_trip, torch.rand(16))
        assert f"its {said} cannot be copied: RuntimeError: no such thing" in str(scope.problem)


def test_a_folder_that_cannot_be_written_leaves_the_assertion(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AssertionError), bisector.attach(tmp_path / "file") as scope:
        compare(round_trip, torch.rand(16))
    assert "cannot be kept" in str(scope.problem)


@pytest.mark.live
def test_random_numbers_are_drawn_again_from_the_same_state(tmp_path: Path) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5)

    with torch._inductor.config.patch(fallback_random=True), bisector.attach(tmp_path) as scope:
        torch.testing.assert_close(torch.compile(program)(torch.ones(64)), torch.zeros(64))
    assert run(sys.executable, "case.py", folder=scope.bundles[0]).returncode == 0  # same draws: they agree


@pytest.mark.live  # a run of check
def test_gradients_that_came_back_are_asked_again(tmp_path: Path) -> None:
    x = torch.rand(8, requires_grad=True)
    with bisector.attach(tmp_path) as scope:
        y = torch.compile(round_trip)(x)
        y.backward(torch.rand(8))
        torch.testing.assert_close(x.grad, torch.zeros(8))
    (call,) = torch.load(scope.bundles[0] / "inputs.pt", weights_only=True)["calls"]
    assert call["grads"][0].shape == (8,)
    assert call["inputs"][0].requires_grad
    done = numbisect("check", scope.bundles[0], "--json", "-", folder=tmp_path)
    outputs = [o["path"] for o in json.loads(done.stdout)["verdict"]["outputs"]]
    assert any(path.startswith("grad[") for path in outputs), outputs


def test_gradients_are_kept_as_they_came_back_though_they_are_added_to(tmp_path: Path) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(4.0)  # its gradient is the output's own, whose memory becomes `x.grad`

    x = torch.zeros(4, requires_grad=True)
    with bisector.attach(tmp_path) as scope:
        (torch.compile(program)(x) * torch.full((4,), 3.0)).sum().backward()
        (x * 2).sum().backward()
        torch.testing.assert_close(x.grad, torch.zeros(4))
    (call,) = torch.load(scope.bundles[0] / "inputs.pt", weights_only=True)["calls"]
    assert call["grads"][0].tolist() == [3.0] * 4


@pytest.mark.live
def test_graph_breaks_and_symbolic_sizes_are_written_out(tmp_path: Path) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.half().float()
        torch._dynamo.graph_break()
        return (y * x.shape[0]).sum()

    with bisector.attach(tmp_path) as scope:
        compiled = torch.compile(program, dynamic=True)
        torch.testing.assert_close(compiled(torch.rand(6)), torch.zeros(()))
    text = (scope.bundles[0] / "case.py").read_text()
    assert text.count("dynamic=True") == 2
    assert run(sys.executable, "case.py", folder=scope.bundles[0]).stderr.count("not close") == 1


def test_what_cannot_be_written_is_said_and_the_assertion_goes_on(tmp_path: Path) -> None:
    @torch.library.custom_op("numbisect_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    with pytest.raises(AssertionError), bisector.attach(tmp_path) as scope:
        torch.testing.assert_close(torch.compile(lambda x: twice(x))(torch.rand(4)), torch.zeros(4))
    assert "numbisect_tests.twice.default is not one of torch's own ops" in str(scope.problem)
    assert list(tmp_path.iterdir()) == []


def test_each_thread_keeps_its_own(tmp_path: Path) -> None:
    compiled = torch.compile(round_trip)
    sizes: dict[int, list[Any]] = {}

    def fuzz(size: int) -> None:
        with bisector.attach(tmp_path / str(size)) as scope:
            torch.testing.assert_close(compiled(torch.rand(size)), torch.zeros(size))
        sizes[size] = [call["inputs"][-1]["shape"] for b in scope.bundles for call in description(b)["calls"]]

    threads = [threading.Thread(target=fuzz, args=(size,)) for size in (3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sizes == {3: [[3]], 5: [[5]]}


def test_one_tolerance_is_not_enough_and_a_note_is_plain_data(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        bisector.attach(tmp_path, note={"x": torch.ones(1)})
    with pytest.raises(ValueError, match="give both"):
        bisector.attach(tmp_path, rtol=1e-3)
