"""Scripts as people post them: every form of compiling is recorded, and no line of them is edited."""

from __future__ import annotations

import os
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from bisector.inductor.capture import record
from bisector.inductor.capture.load import Loaded, LoadOptions, load

pytestmark = pytest.mark.usefixtures("undisturbed")

HEAD = """
import torch
def fn(x):
    return x * 2 + 1
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.arange(3.0))
    def forward(self, x):
        return x * self.w
x = torch.arange(3.0)
"""


@pytest.fixture
def run(tmp_path: Path) -> Any:
    def run_script(text: str, head: str = HEAD, **options: Any) -> Loaded:
        script = tmp_path / "script.py"
        script.write_text(head + textwrap.dedent(text))
        return load(LoadOptions(str(script), threads=1, **options))

    return run_script


def entry(loaded: Loaded) -> Any:
    assert loaded.problem is None
    return loaded.recorder.calls[0].graph.entry


# -- graphs that Dynamo makes anew ------------------------------------------------------------------------


def test_a_step_whose_float_must_become_a_constant_is_recorded_each_time(run: Any) -> None:
    loaded = run("""
        def step(w, count):
            count.add_(1)
            done = count.item()
            w.addcmul_(w, w, value=-0.1 / (1 - 0.9**done))
        compiled, count = torch.compile(step), torch.zeros(())
        for _ in range(4):
            compiled(x, count)
    """)
    assert len(loaded.recorder.calls) == 8  # at each step the graph up to the number, and the one behind it


# -- seeds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("drawing", "seeding"),
    [
        ("torch.rand(3)", "torch.manual_seed(1)"),
        ("torch.rand(3)", "torch.random.manual_seed(1)"),
        ("import random\nrandom.random()", "import random\nrandom.seed(1)"),
        ("import numpy\nnumpy.random.rand()", "import numpy\nnumpy.random.seed(1)"),
    ],
)
def test_a_script_that_draws_and_sets_no_seed_is_told_by_each_generator(
    run: Any, drawing: str, seeding: str
) -> None:
    assert run(f"{drawing}\ntorch.compile(fn)(x)").recorder.unseeded
    assert not run(f"{seeding}\n{drawing}\ntorch.compile(fn)(x)").recorder.unseeded
    assert not run("torch.compile(fn)(x)").recorder.unseeded


def test_the_seed_of_one_library_is_none_of_another(run: Any) -> None:
    drawing = "import random\ntorch.manual_seed(1)\nrandom.random()\ntorch.rand(1)"
    assert run(f"{drawing}\ntorch.compile(fn)(x)").recorder.unseeded


def test_a_compiled_call_within_another_is_part_of_it(run: Any) -> None:
    """As it is in the runs of the script, so that both count alike."""
    text = """
    inner = torch.compile(fn)
    @torch.compile
    def outer(x):
        print("a graph break")
        return inner(x)
    outer(x)
    """
    assert run(text).recorder.made == 1


# -- every form of compiling ------------------------------------------------------------------------------

FORMS = {
    "a function": "torch.compile(fn)(x)",
    "a decorator": "@torch.compile\ndef g(x):\n    return x + 1\ng(x)",
    "a decorator with arguments": "@torch.compile(dynamic=False)\ndef g(x):\n    return x + 1\ng(x)",
    "a module": "torch.compile(Net())(x)",
    "a module in place": "net = Net()\nnet.compile()\nnet(x)",
    "a module in place with arguments": "net = Net()\nnet.compile(fullgraph=True)\nnet(x)",
    "an imported name": "from torch import compile as c\nc(fn)(x)",
    "torch.compiler": "torch.compiler.compile(fn)(x)",
    "a lambda": "torch.compile(lambda x: x + 1)(x)",
    "a bound method": "torch.compile(Net().forward)(x)",
    "dynamo": "import torch._dynamo as d\nd.optimize('inductor')(fn)(x)",
    "dynamo by default": "torch._dynamo.optimize()(fn)(x)",
    "dynamo as a decorator": "@torch._dynamo.optimize('inductor')\ndef g(x):\n    return x + 1\ng(x)",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_compiled_call_is_recorded(run: Any, form: str) -> None:
    loaded = run(FORMS[form])
    assert loaded.problem is None
    assert loaded.ended == ""
    assert len(loaded.recorder.entries) == 1
    assert entry(loaded).backend == "inductor"
    [call] = loaded.recorder.calls
    assert any(torch.equal(a, torch.arange(3.0)) for a in call.args)


@pytest.mark.parametrize(
    ("form", "backend"),
    [
        ("torch.compile(fn, backend='aot_eager')(x)", "aot_eager"),
        ("torch._dynamo.optimize('eager')(fn)(x)", "eager"),
        ("Net_ = Net()\nNet_.compile(backend='aot_eager')\nNet_(x)", "aot_eager"),
    ],
)
def test_the_name_of_a_backend_is_kept(run: Any, form: str, backend: str) -> None:
    assert entry(run(form)).backend == backend


@pytest.mark.parametrize("how", ["torch.compile(fn, backend=mine)", "torch._dynamo.optimize(mine)(fn)"])
def test_a_backend_of_the_scripts_own_is_kept_and_not_called(run: Any, how: str) -> None:
    loaded = run(f"""
        called = []
        def mine(gm, inputs):
            called.append(gm)
            return gm
        {how}(x)
        assert not called
    """)
    assert loaded.ended == ""
    assert entry(loaded).backend.__name__ == "mine"


def test_mode_and_options_become_settings_of_inductor(run: Any) -> None:
    assert entry(run("torch.compile(fn, mode='max-autotune')(x)")).options["max_autotune"] is True
    assert entry(run("torch.compile(fn, mode='default')(x)")).options == {}
    options = "{'epilogue_fusion': False, 'cpp.simdlen': 1, 'max-autotune': True}"
    assert entry(run(f"torch.compile(fn, options={options})(x)")).options == {
        "epilogue_fusion": False,
        "cpp.simdlen": 1,
        "max_autotune": True,
    }


def test_dynamic_is_kept_and_fullgraph_holds(run: Any) -> None:
    loaded = run("f = torch.compile(fn, dynamic=True, fullgraph=True)\nf(x)\nf(torch.arange(5.0))")
    assert entry(loaded).dynamic is True
    assert len(loaded.recorder.graphs) == 1
    broken = run("def g(x):\n    print(x)\n    return x\ntorch.compile(g, fullgraph=True)(x)")
    assert broken.nothing is not None
    assert "Unsupported" in broken.nothing


def test_the_command_lines_dynamic_goes_before_the_scripts(run: Any) -> None:
    text = "f = torch.compile(fn)\nf(x)\nf(torch.arange(5.0))"
    assert len(run(text, dynamic=True).recorder.graphs) == 1
    assert len(run(text, dynamic=False).recorder.graphs) == 2


def test_what_is_disabled_is_not_recorded(run: Any) -> None:
    loaded = run("torch.compile(fn, disable=True)(x)\ntorch.compile(fn)(x)")
    assert len(loaded.recorder.entries) == 1


def test_entries_are_named_after_what_is_compiled(run: Any) -> None:
    loaded = run("""
        torch.compile(fn)(x)
        torch.compile(Net())(x)
        net = Net()
        net.compile()
        net(x)
    """)
    assert [e.name for e in loaded.recorder.entries] == ["fn", "Net", "Net"]


def test_each_graph_and_each_call_of_it_is_recorded(run: Any) -> None:
    loaded = run("""
        def g(x):
            y = x + 1
            torch._dynamo.graph_break()
            return y * 2
        f = torch.compile(g)
        for i in range(6):
            f(x + i)
    """)
    assert len(loaded.recorder.graphs) == 2
    assert [g.skipped_calls for g in loaded.recorder.graphs] == [2, 2]
    kept = [c for c in loaded.recorder.calls if c.graph.index == 0]
    assert [(c.within, c.args[0][0].item()) for c in kept] == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert loaded.recorder.skipped_within == {4, 5}


STEPS = """
    weight = torch.nn.Parameter(torch.ones(1000))
    step = torch.compile(lambda x: (x * weight.sum()).sum())
    for number in range(3):
        step(x + number)
        if number == 1:
            weight.data.mul_(2)
"""


def test_a_parameter_that_did_not_change_is_kept_once(run: Any) -> None:
    recorder = run(STEPS).recorder
    weights = [next(a for a in call.args if a.numel() == 1000) for call in recorder.calls]
    assert [weight[0].item() for weight in weights] == [1, 1, 2]
    assert weights[0].data_ptr() == weights[1].data_ptr() != weights[2].data_ptr()
    assert 8000 < recorder.kept.bytes < 9000


def test_inputs_for_which_there_is_no_room_are_the_problem_that_is_told(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "MEMORY_LIMIT", 0)
    monkeypatch.setattr(record, "SHARE", 0)
    assert "take 0.0 GiB, more than there is room for; compile a part" in run(STEPS).nothing


def test_inputs_are_those_before_the_call_also_where_it_writes_into_them(run: Any) -> None:
    loaded = run("""
        def g(x):
            x.add_(10)
            return x * 2
        torch.compile(g)(x)
        x.zero_()
    """)
    assert loaded.recorder.calls[0].args[0].tolist() == [0, 1, 2]


def test_torch_is_as_before_when_the_script_has_ended(run: Any) -> None:
    before = (torch.compile, torch._dynamo.optimize, torch.allclose, torch.equal, torch.testing.assert_close)
    run("torch.compile(fn)(x)\n1 / 0")
    assert before == (
        torch.compile,
        torch._dynamo.optimize,
        torch.allclose,
        torch.equal,
        torch.testing.assert_close,
    )
    assert torch.Tensor.allclose(torch.ones(1), torch.ones(1), 0, 0, True)


# -- the script's own comparisons --------------------------------------------------------------------------


def tolerances(loaded: Loaded, call: int = 0) -> dict[str, tuple[tuple[float, float], ...]]:
    assert loaded.problem is None
    return dict(loaded.recorder.calls[call].tolerances)


COMPARISONS = {
    "torch.testing.assert_close(c, e, rtol=1e-3, atol=1e-4)": (1e-3, 1e-4),
    "torch.testing.assert_close(e, c, rtol=1e-3, atol=1e-4, equal_nan=True)": (1e-3, 1e-4),
    "torch.testing.assert_close([c], [e], rtol=0, atol=0)": (0.0, 0.0),
    "torch.testing.assert_close({'a': c}, {'a': e}, rtol=1e-3, atol=0)": (1e-3, 0.0),
    "from torch.testing import assert_close\nassert_close(c, e, rtol=1e-3, atol=0)": (1e-3, 0.0),
    "assert torch.allclose(c, e)": (1e-5, 1e-8),
    "torch.allclose(c, e, 1e-3)": (1e-3, 1e-8),
    "torch.allclose(e, c, 1e-3, 1e-4, True)": (1e-3, 1e-4),
    "torch.allclose(input=c, other=e, atol=1e-2)": (1e-5, 1e-2),
    "c.allclose(e, rtol=1e-3)": (1e-3, 1e-8),
    "assert torch.equal(c, e)": (0.0, 0.0),
    "assert c.equal(e)": (0.0, 0.0),
    "torch.equal(c.view(3, 1), e.view(3, 1))": (0.0, 0.0),
    "torch.allclose(c[1:], e[1:], atol=1e-2)": (1e-5, 1e-2),
    "torch.allclose(c.detach(), e, atol=1e-2)": (1e-5, 1e-2),
}


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_the_tolerance_of_a_comparison_holds_for_the_output_it_is_about(run: Any, comparison: str) -> None:
    loaded = run(f"e = fn(x)\nc = torch.compile(fn)(x)\n{comparison}")
    assert loaded.ended == ""
    assert tolerances(loaded) == {"output[0]": (COMPARISONS[comparison],)}


def test_a_comparison_with_the_default_tolerance_sets_none(run: Any) -> None:
    loaded = run("e = fn(x)\nc = torch.compile(fn)(x)\ntorch.testing.assert_close(c, e)")
    assert tolerances(loaded) == {}


@pytest.mark.parametrize("arguments", ["c, fn(x).double()", "c, fn(x), 'wide'"])
def test_a_comparison_that_torch_refuses_sets_none_and_raises_what_torch_raises(
    run: Any, arguments: str
) -> None:
    loaded = run(f"""
        c = torch.compile(fn)(x)
        try:
            torch.allclose({arguments})
        except (RuntimeError, TypeError) as error:
            assert "could not convert" not in str(error)
        else:
            raise SystemExit("it compared them")
    """)
    assert loaded.ended == ""
    assert tolerances(loaded) == {}


def test_of_several_comparisons_of_one_output_each_holds_and_a_default_is_one(run: Any) -> None:
    loaded = run("""
        c = torch.compile(fn)(x)
        torch.allclose(c, fn(x), 1e-2)
        torch.testing.assert_close(c, fn(x))
        torch.allclose(c, fn(x), 1e-6)
        torch.allclose(c, fn(x), 1e-2)
    """)
    assert tolerances(loaded) == {"output[0]": ((1e-2, 1e-8), (1.3e-6, 1e-5), (1e-6, 1e-8))}


def test_each_output_has_the_tolerance_of_its_own_comparison(run: Any) -> None:
    loaded = run("""
        def two(x):
            return x + 1, x * 2
        a, b = torch.compile(two)(x)
        torch.allclose(b, x * 2, rtol=1e-2)
        torch.equal(a, x + 1)
    """)
    assert tolerances(loaded) == {"output[0]": ((0.0, 0.0),), "output[1]": ((1e-2, 1e-8),)}


def test_the_comparison_of_a_gradient_is_about_the_gradient(run: Any) -> None:
    loaded = run("""
        x.requires_grad_()
        torch.compile(fn)(x).sum().backward()
        torch.testing.assert_close(x.grad, torch.full((3,), 2.0), rtol=1e-3, atol=1e-4)
    """)
    [name] = loaded.recorder.calls[0].input_names()
    assert tolerances(loaded) == {f"grad[{name}]": ((1e-3, 1e-4),)}
    assert loaded.recorder.calls[0].grad_outputs[0].tolist() == [1, 1, 1]


def test_the_comparison_of_something_computed_speaks_for_all_outputs(run: Any) -> None:
    loaded = run(
        "c = torch.compile(fn)(x)\ntorch.allclose((c - fn(x)).abs().max(), torch.zeros(()), atol=1e-3)"
    )
    assert tolerances(loaded) == {"*": ((1e-5, 1e-3),)}


def test_a_comparison_before_anything_is_compiled_is_about_something_else(run: Any) -> None:
    loaded = run("assert torch.equal(x, x)\ntorch.compile(fn)(x)")
    assert tolerances(loaded) == {}


def test_comparisons_inside_the_compiled_program_are_its_own(run: Any) -> None:
    loaded = run("""
        def g(x):
            if torch.allclose(x, x):
                return x + 1
            return x
        torch.compile(g)(x)
    """)
    assert loaded.ended == ""
    assert loaded.problem is None


# -- whatever the script does after the call -----------------------------------------------------------------


def test_an_assert_close_that_fails_is_noted_and_does_not_end_the_script(run: Any) -> None:
    loaded = run("""
        c = torch.compile(fn)(x)
        torch.testing.assert_close(c, x, rtol=0, atol=0)
        torch.compile(Net())(x)
    """)
    assert [c.agreed for c in loaded.recorder.comparisons] == [False]
    assert [e.name for e in loaded.recorder.entries] == ["fn", "Net"]


def test_an_assert_close_that_fails_before_the_call_ends_it(run: Any) -> None:
    loaded = run("torch.testing.assert_close(x, x + 1)\ntorch.compile(fn)(x)")
    assert "ended before it compiled anything: AssertionError" in loaded.problem


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ("import sys\nsys.exit(3)", "sys.exit(3)"),
        ("exit()", "sys.exit(None)"),
        ("raise RuntimeError('so what')", "RuntimeError: so what (script.py:13)"),
        ("assert False, 'no'", "AssertionError: no (script.py:13)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt (script.py:13)"),
        ("x.grad.sum()", "AttributeError: 'NoneType' object has no attribute 'sum' (script.py:13)"),
        ("input('name? ')", "EOFError"),
    ],
)
def test_how_the_script_ends_after_the_call_is_told_and_spoils_nothing(
    run: Any, ending: str, said: str
) -> None:
    from bisector.inductor.capture.load import quiet_stdin

    with quiet_stdin():
        loaded = run(f"torch.compile(fn)(x)\n{ending}")
    assert loaded.problem is None
    assert loaded.ended.startswith(said)
    assert len(loaded.recorder.calls) == 1


def test_a_signal_handler_of_the_script_does_not_end_it(run: Any) -> None:
    loaded = run("import signal\nsignal.signal(signal.SIGTERM, lambda *a: None)\ntorch.compile(fn)(x)")
    assert (loaded.problem, loaded.ended) == (None, "")


def test_a_script_that_does_not_end_is_left_after_its_time(run: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "never")
    loaded = run(f"torch.compile(fn)(x)\nopen({str(tmp_path / 'never')!r}).read()", timeout_s=3.0)
    assert loaded.ended == "stopped after 3 s"
    assert len(loaded.recorder.calls) == 1
    (tmp_path / "never").write_text("")  # lets the script go, and torch be as before
    for thread in threading.enumerate():
        if thread.name == "subject":
            thread.join()


def test_a_script_is_main_and_sees_its_own_name_and_folder(run: Any, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("number = 5")
    loaded = run("""
        import sys
        from beside import number
        assert number == 5
        assert sys.argv == [__file__]
        if __name__ == "__main__":
            torch.compile(fn)(x)
    """)
    assert (loaded.problem, loaded.ended) == (None, "")
