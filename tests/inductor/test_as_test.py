"""A divergence as a test: it fails by its comparison alone, and leaves the settings as they were."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from bisector.inductor.graph.as_test import name_of_test, write_test
from bisector.inductor.graph.fixes import SetFlags, UseBackend
from bisector.inductor.graph.repro_spec import ReproSpec
from bisector.inductor.graph.values import CannotWrite

from .test_repro_file import CONTRACT, Normalized, contraction, gradient, spec
from .test_source import capture, late

Run = Callable[[str], subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the text of a test file by pytest, from a folder that is not its own."""
    folder, elsewhere, cache = (tmp_path_factory.mktemp(name) for name in ("test", "elsewhere", "cache"))

    def run(text: str) -> subprocess.CompletedProcess[str]:
        file = folder / "test_repro.py"
        file.write_text(text, encoding="utf-8")
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
        return subprocess.run(
            command, cwd=elsewhere, env=environment, capture_output=True, text=True, timeout=300
        )

    return run


def test_the_test_fails_while_it_diverges_passes_with_the_fix_and_restores(run: Run) -> None:
    text = write_test(contraction(fix=SetFlags({CONTRACT: "off"}), header=["Contraction in exp(a*b - max)"]))
    setting = f"torch._{CONTRACT.replace('.', '.config.', 1)}"
    after = f"\n\ndef test_afterwards():\n    assert {setting} != 'fast'\n"
    diverging = run(text + after)
    assert diverging.returncode == 1
    assert "1 failed, 1 passed" in diverging.stdout, diverging.stdout
    assert "AssertionError: Tensor-likes are not close!" in diverging.stdout
    fixed = run(text.replace('"fast"', '"off"', 1))
    assert fixed.returncode == 0, fixed.stdout


def test_the_file_is_plain_and_reads_from_the_top() -> None:
    text = write_test(contraction(fix=SetFlags({CONTRACT: "off"}), header=["Contraction in exp(a*b - max)"]))
    assert text.startswith(
        "# Contraction in exp(a*b - max)\n"
        '# Fix: torch._inductor.config.cpp.enable_floating_point_contract_flag = "off"\n'
        "#\n"
        "# python -m pytest repro.py   fails while compiled differs\n"
        "import torch\n"
        "import torch._inductor.config\n\n\n"
        "def fn(x, scale):\n"
    )
    assert text.endswith(
        '@torch._inductor.config.patch("cpp.enable_floating_point_contract_flag", "fast")\n'
        "def test_compiled_agrees_with_eager():\n"
        "    torch._dynamo.reset()\n"
        "    expected = fn(*inputs())\n"
        "    actual = torch.compile(fn)(*inputs())\n"
        "    torch.testing.assert_close(actual, expected, rtol=1.3e-06, atol=1e-05, equal_nan=True)\n"
    )
    assert "bisector" not in text and "import pytest" not in text and "FIXED" not in text


def test_gradients_under_their_own_tolerances_are_compared(run: Run) -> None:
    text = write_test(gradient())
    assert "# Fix: torch._inductor.lowering.decompositions.pop(" in text
    assert "#      torch._inductor.lowering.make_fallback(" in text
    result = run(text)
    assert result.returncode == 1
    assert "AssertionError: gradient of x: " in result.stdout, result.stdout


def test_what_freezing_folds_is_held_by_a_module(run: Run) -> None:
    torch.manual_seed(0)
    net = Normalized()
    net(torch.randn(8, 4, 8, 8) * 3 + 1)
    net = net.eval().to(torch.bfloat16)
    x = torch.randn(4, 4, 8, 8).to(torch.bfloat16)
    with torch.no_grad():
        frozen = spec(
            net, x, tolerances=[(1.6e-2, 1e-5)], settings={"inductor.freezing": True}, grad_enabled=False
        )
        text = write_test(frozen)
    result = run(text)
    assert "Tensor-likes are not close" in result.stdout, result.stdout
    assert run(text.replace('"freezing", True', '"freezing", False')).returncode == 0


def test_the_sign_of_a_zero_counts_where_asked(run: Run) -> None:
    x = torch.tensor([-0.5, 0.5])
    zeros = spec(lambda x: torch.ceil(x) + torch.zeros_like(x), x, signed_zero=True)
    assert run(write_test(replace(zeros, signed_zero=False))).returncode == 0
    result = run(write_test(zeros))
    assert "Tensor-likes are not equal" in result.stdout, result.stdout


def test_settings_without_a_patch_are_put_back_too(run: Run) -> None:
    text = write_test(
        contraction(
            settings={"backends.mkldnn.deterministic": True, CONTRACT: "fast", "functorch.cse": False},
            grad_enabled=False,
            default_dtype=torch.float64,
            num_threads=1,
            seed=3,
        )
    )
    before = (
        "\nBEFORE = torch.get_default_dtype(), torch.get_num_threads(), torch.backends.mkldnn.deterministic\n"
        "assert BEFORE == (torch.float32, torch.get_num_threads(), False)\n"
    )
    after = (
        "\n\ndef test_afterwards():\n"
        "    now = torch.get_default_dtype(), torch.get_num_threads(), torch.backends.mkldnn.deterministic\n"
        "    assert now == BEFORE and torch.is_grad_enabled() and torch._functorch.config.cse\n"
    )
    assert "@torch.no_grad()\n@settings()\ndef test_" in text
    result = run(text + before + after)
    assert "1 failed, 1 passed" in result.stdout, result.stdout
    assert "Tensor-likes are not" in result.stdout


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"env.A": 1}, "environment variable"),
        ({"torch.use_deterministic_algorithms": True}, "has no counterpart"),
        ({"inductor.no_such_flag": 1}, "no setting inductor.no_such_flag"),
    ],
)
def test_a_setting_that_cannot_be_put_back_is_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(CannotWrite, match=said):
        write_test(contraction(settings=settings))


def test_another_backend_as_a_fix_is_said_in_the_comment_alone() -> None:
    text = write_test(contraction(fix=UseBackend("aot_eager"), compile_kwargs={"dynamic": False}))
    assert '# Fix: torch.compile(..., backend="aot_eager")\n' in text
    assert "torch.compile(fn, dynamic=False)(*inputs())" in text


def test_a_test_is_named_after_few_operations() -> None:
    assert name_of_test(late("ceil_7")) == "test_ceil_agrees_with_eager"
    gm, _ = capture(lambda x: torch.ops.aten._softmax(x.half()[0] * 2, -1, False), torch.ones(1, 2))
    assert name_of_test(gm) == "test_half_getitem_mul_softmax_agrees_with_eager"
    gm, _ = capture(lambda x: x.sin().cos().tan().exp().log(), torch.ones(2))
    assert name_of_test(gm) == "test_compiled_agrees_with_eager"


def test_long_inputs_stand_after_what_is_read() -> None:
    graph = torch.fx.Graph()
    graph.output((graph.call_function(torch.neg, (graph.placeholder("x"),)),))
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    text = write_test(ReproSpec(gm, [torch.randn(20, 20)], [(0.0, 0.0)]))
    places = [text.index(piece) for piece in ("def test_neg_agrees_with_eager()", "def unpack(", "X_DATA = ")]
    assert places == sorted(places)
    assert "import base64\nimport zlib\n\nimport torch\n" in text
