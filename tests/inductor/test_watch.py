"""A script's calls as they are watched: what each gives, beside eager's, and on equal inputs.

What is compiled is planted to differ by `torch.compiler.is_compiling()`, which is true while Dynamo traces.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import random
import sys
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy
import pytest
import torch
from torch.autograd import forward_ad

from bisector import wire
from bisector.core.accuracy import is_far
from bisector.core.criterion import Criterion
from bisector.core.judge import judge
from bisector.core.outcome import Outcome
from bisector.core.program import Carrier, CompiledCall, EffectKind, Mode, PlainRun, WatchOptions
from bisector.core.script_verdict import first_unequal
from bisector.core.shown import is_exact, shown
from bisector.inductor import run_values
from bisector.inductor.capture import comparisons
from bisector.inductor.capture.wrapped_calls import wrapped
from bisector.inductor.program import call_values
from bisector.inductor.program import eager_rerun as watching_beside
from bisector.inductor.program import watch as watching
from bisector.inductor.program.call_state import State
from bisector.inductor.program.effects import PutBack, place_of
from bisector.inductor.program.substitution import Substituted
from bisector.inductor.program.watch import Watch
from bisector.inductor.run_values import measured
from bisector.report.reasons import words

pytestmark = pytest.mark.usefixtures("undisturbed")
LAST = 99  # of the calls beside which eager runs: a watch ends its process after that one
Script = Callable[[Callable[..., Any]], None]


def of(folder: Path, mode: Mode, **more: Any) -> WatchOptions:
    return WatchOptions(mode=mode, seed=0, folder=str(folder), **more)


class Watched:
    """One run of a script of calls. model: what it compiles."""

    def __init__(self, folder: Path, mode: Mode, model: Any) -> None:
        self.calls: list[CompiledCall] = []
        until = LAST if mode in (Mode.EAGER_BESIDE, Mode.COMPILED_BESIDE) else None
        self.watch = Watch(of(folder, mode, until=until), self._note)
        self.model = model
        torch._dynamo.reset()
        self.made = torch.compile(model, backend="eager") if mode.is_compiled else model

    def _note(self, **event: Any) -> None:
        self.calls.append(wire.load(CompiledCall, event))

    def __call__(self, *args: Any) -> Any:
        return self.watch.call("f", self.made, self.model, args, {})

    def backward(self, loss: torch.Tensor) -> None:
        self.watch.before_backward()
        loss.backward()
        self.watch.after_backward()


def ran(folder: Path, mode: Mode, model: Any, script: Callable[[Watched], None]) -> PlainRun:
    torch.manual_seed(0)
    random.seed(0)
    run = Watched(folder, mode, model)
    script(run)
    run.watch.finish()
    return PlainRun(tuple(run.calls), status=0)


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Callable[..., tuple[PlainRun, PlainRun]]]:
    """The run with compilation off, and the compiled one; model: makes what is compiled, for each anew."""

    def runs(
        model: Callable[[], Any], script: Callable[[Watched], None], beside: bool = False
    ) -> tuple[PlainRun, PlainRun]:
        kept = ran(tmp_path, Mode.EAGER, model(), script)
        if not beside:
            return kept, ran(tmp_path, Mode.COMPILED, model(), script)
        modes = (Mode.EAGER_BESIDE, Mode.COMPILED_BESIDE)
        control, compiled = (ran(tmp_path, mode, model(), script) for mode in modes)
        return control, compiled

    yield runs


def differs(x: torch.Tensor, by: float = 0.5) -> torch.Tensor:
    return x + by if torch.compiler.is_compiling() else x


# -- what a call gives ------------------------------------------------------------------------------------


def test_a_call_within_a_call_is_part_of_it(both: Any) -> None:
    """Traced it is never seen, with compilation off or at a graph break it is."""

    def script(run: Watched) -> None:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return x + 1

        within = wrapped(inner, inner, run.watch.call)

        def outer(x: torch.Tensor) -> torch.Tensor:
            return within(x) * 2

        around = wrapped(outer, outer, run.watch.call)
        for i in range(2):
            around(torch.ones(2) * i)

    kept, compiled = both(lambda: torch.sin, script)
    entries = [[call.entry.rpartition(".")[2] for call in one.calls] for one in (kept, compiled)]
    assert entries == [["outer", "outer"]] * 2
    assert is_exact(compiled)


class Layer(torch.nn.Module):
    def __init__(self, by: float = 0.5) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.by = by

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * differs(self.weight * x, self.by).detach() * self.weight


def test_gradients_are_seen_as_the_backward_pass_leaves_them(both: Any) -> None:
    """A script may clear them before the next call."""

    def script(run: Watched) -> None:
        run.backward(run(torch.ones(3)).sum() * 0 + run.model.weight.sum())
        run.model.zero_grad()

    _, compiled = both(Layer, script)
    paths = {output.path for output in compiled.calls[0].outputs}
    assert "grad[weight]" in paths


def test_what_a_function_takes_from_around_it_is_watched(both: Any) -> None:
    def made() -> Any:
        layer, scale = Layer(0.0), torch.ones(3)

        def helper(x: torch.Tensor) -> torch.Tensor:
            return x * scale

        def function(x: torch.Tensor) -> torch.Tensor:
            return helper(layer(x))

        return function

    _, compiled = both(made, lambda run: run(torch.ones(3)))
    paths = {output.path for output in compiled.calls[0].outputs}
    assert {"state[layer.weight]", "state[scale]"} <= paths


def test_a_tangent_that_is_lost_is_a_difference_of_kind(both: Any) -> None:
    def cube(x: torch.Tensor) -> torch.Tensor:
        return (x.detach() if torch.compiler.is_compiling() else x) ** 3

    def script(run: Watched) -> None:
        with forward_ad.dual_level():
            run(forward_ad.make_dual(torch.ones(2), torch.ones(2)))

    _, compiled = both(lambda: cube, script)
    found = judge_outputs(compiled)
    assert "tangent[0]" in found


def judge_outputs(run: PlainRun) -> str:
    """The first call that diverges."""
    kept = PlainRun(tuple(CompiledCall(c.index, c.entry) for c in run.calls), status=0)
    return words(shown(kept, run, Criterion()).reason)


# -- what is too large to keep ----------------------------------------------------------------------------


@pytest.fixture
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "KEPT_BYTES", 0)
    monkeypatch.setattr(run_values, "SAMPLE", 8)


def moved(at: int, by: float) -> Callable[[], Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        made = x.clone()
        if torch.compiler.is_compiling():
            made[at] += by
        return made

    return lambda: function


@pytest.mark.usefixtures("nothing_kept")
@pytest.mark.parametrize(
    ("at", "by", "outcome"),
    [(0, 0.0, Outcome.PASS), (0, 1.0, Outcome.FAIL), (1, 1.0, Outcome.UNRESOLVED)],
)
def test_of_a_value_too_large_to_keep_a_digest_tells_equality_and_a_sample_the_rest(
    both: Any, at: int, by: float, outcome: Outcome
) -> None:
    """Every eighth element is in the sample: the first, and not the second."""
    kept, compiled = both(moved(at, by), lambda run: run(torch.ones(64)))
    found = shown(kept, compiled, Criterion())
    assert found.outcome is outcome, found.reason
    if outcome is Outcome.UNRESOLVED:
        said = words(found.reason)
        assert "output[0] is too large to keep" in said and "8 of its 64 elements" in said


@pytest.mark.usefixtures("nothing_kept")
def test_a_value_too_large_to_keep_has_a_shape_and_a_dtype_all_the_same(both: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x[:32] if torch.compiler.is_compiling() else x

    kept, compiled = both(lambda: function, lambda run: run(torch.ones(64)))
    assert "shape (32,) instead of (64,)" in words(shown(kept, compiled, Criterion()).reason)


# -- on equal inputs --------------------------------------------------------------------------------------


def place(control: PlainRun, compiled: PlainRun, at: int) -> Any:
    kept = PlainRun(tuple(CompiledCall(c.index, c.entry) for c in compiled.calls), status=0)
    found = shown(kept, compiled, Criterion())
    assert found.call == at, found.reason
    return first_unequal(control, compiled, found, Criterion())


def test_a_call_that_makes_the_difference_is_the_place(both: Any) -> None:
    def script(run: Watched) -> None:
        for _ in range(2):
            run(torch.ones(3))

    found = place(*both(lambda: differs, script, beside=True), at=0)
    assert found.place is not None and found.place.index == 0
    assert all(is_far(output, found.place.beside) for output in found.place.beside.default.outputs[:1])


class Growing(torch.nn.Module):
    """Doubles what it holds; compiled, the first call begins a little higher."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("held", torch.ones(3))
        self.made = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.held.mul_(100 * x)
        return self.held.clone()


def test_a_difference_that_grows_is_no_place(both: Any) -> None:
    """The two runs are given inputs that differ within the tolerance, as by an earlier rounding."""

    def script(run: Watched) -> None:
        little = 1.0 + 1e-6 * run.watch.keeps
        for _ in range(3):
            run(torch.full((3,), little))

    control, compiled = both(Growing, script, beside=True)
    assert all(call.beside is not None and not call.beside_unseen for call in compiled.calls)
    for call in compiled.calls:
        assert call.beside is not None
        assert judge(call.beside.default, Criterion()).outcome is Outcome.PASS
    assert not place(control, compiled, at=1).unknown


def test_eager_beside_a_call_leaves_the_script_as_it_was(both: Any, tmp_path: Path) -> None:
    """Buffers, counters, closures, generators and gradients go on from where the call left them."""
    seen: list[list[Any]] = []

    def made() -> Any:
        die, counts, log = random.Random(3), {"calls": 0}, []

        def function(x: torch.Tensor) -> torch.Tensor:
            counts["calls"] += 1
            log.append(die.randint(1, 6))
            return x * torch.rand(3) + counts["calls"] + sum(log)

        return function

    def script(run: Watched) -> None:
        results = [run(torch.ones(3)) for _ in range(3)]
        seen.append([*(r.tolist() for r in results), torch.rand(1).item()])

    plain = ran(tmp_path, Mode.EAGER, made(), script)
    control = ran(tmp_path, Mode.EAGER_BESIDE, made(), script)
    assert seen[0] == seen[1]
    assert len(plain.calls) == len(control.calls) == 3
    for call in control.calls:
        assert call.beside is not None
        assert not any(output.n_diff for output in call.beside.default.outputs), "and gives the same again"


def test_a_gradient_is_compared_on_equal_inputs_with_a_float64_reference(both: Any) -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * 3

    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.rand(40) + 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            made = x * self.weight
            return made if torch.compiler.is_compiling() else Wrong.apply(made)

    def script(run: Watched) -> None:
        run.backward(run(torch.ones(40)).square().sum())

    found = place(*both(Scaled, script, beside=True), at=0)
    [gradient] = [o for o in found.place.beside.default.outputs if o.path == "grad[weight]"]
    assert gradient.n_diff == 40
    assert gradient.rms_error_eager < 1e-5 < gradient.rms_error_compiled


def test_a_float64_run_of_what_asks_for_its_dtype_is_no_reference(both: Any) -> None:
    def by_bits(x: torch.Tensor) -> torch.Tensor:
        return x * torch.finfo(x.dtype).bits + (0.5 if torch.compiler.is_compiling() else 0.0)

    found = place(*both(lambda: by_bits, lambda run: run(torch.rand(40) + 1), beside=True), at=0)
    evidence = found.place.beside
    assert watching_beside.OTHER_REFERENCE in evidence.notes
    assert [output.rms_error_eager for output in evidence.default.outputs if output.n_diff] == [None]


def test_eager_beside_a_call_runs_backward_under_the_autocast_of_the_scripts_own_backward(both: Any) -> None:
    class Head(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(40, 40)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", enabled=False):
                return self.linear(x)

    def script(run: Watched) -> None:
        for _ in range(2):  # a call is compared where the next one begins
            with torch.autocast("cpu", dtype=torch.bfloat16):
                made = run(torch.rand(8, 40))
            run.backward(made.square().sum())

    for run in both(Head, script, beside=True):
        for call in run.calls:
            assert call.beside is not None
            gradients = [o for o in call.beside.default.outputs if o.path.startswith("grad[")]
            assert len(gradients) == 2 and not any(o.n_diff for o in gradients)


def test_a_function_that_cannot_run_twice_says_so(both: Any) -> None:
    def made() -> Any:
        left = iter([1.0])

        def function(x: torch.Tensor) -> torch.Tensor:
            return x * next(left)

        return function

    _, compiled = both(made, lambda run: run(torch.ones(3)), beside=True)
    [call] = compiled.calls
    assert call.beside is None
    assert call.beside_unseen.startswith("eager does not run a second time on its inputs")


def test_a_gradient_that_comes_back_after_the_next_call_is_told(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    watch = Watch(of(tmp_path, Mode.EAGER_BESIDE, until=LAST), lambda **event: events.append(event))
    layer, x = Layer(0.0), torch.ones(3)
    first, second = (watch.call("f", layer, layer, (x,), {}) for _ in range(2))
    watch.before_backward()
    (first + second).sum().backward()
    watch.after_backward()
    watch.finish()
    assert [event["late"] for event in events if "late" in event] == [0]


def test_state_is_put_back_without_autograd_seeing_it() -> None:
    layer = torch.nn.BatchNorm1d(3)
    before = State(layer)
    out = layer(torch.rand(4, 3))
    version = layer.weight._version
    changed = layer.running_mean.clone()
    before.put_back()
    assert torch.equal(layer.running_mean, torch.zeros(3)) and not torch.equal(changed, torch.zeros(3))
    assert layer.weight._version == version
    out.sum().backward()


def test_hooks_are_put_back_with_the_state() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(3, 3))
    layer[0].register_forward_pre_hook(lambda module, args: None)
    kept = dict(layer[0]._forward_pre_hooks)
    before = State(layer)
    layer[0].register_forward_hook(lambda module, args, out: out * 2)
    layer[0]._forward_pre_hooks.clear()
    before.put_back()
    assert not layer[0]._forward_hooks and dict(layer[0]._forward_pre_hooks) == kept


a = torch.ones(1)  # no part of what `Attributes` reads, which has an attribute of that name


class Attributes(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.a(x) * LAST


def test_an_attribute_is_not_taken_for_a_global_variable_of_its_name() -> None:
    paths = call_values.state(Attributes()).keys()
    assert "state[LAST]" in paths and "state[a.weight]" in paths
    assert "state[a]" not in paths


def test_what_watches_compares_nothing_in_the_place_of_the_script(tmp_path: Path) -> None:
    noted: list[dict[str, Any]] = []
    watch = Watch(of(tmp_path, Mode.EAGER), lambda **event: noted.append(event))
    compare = {name: stand_in for _, name, stand_in in comparisons.stand_ins(watch.compared)}["equal"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch, "equal", compare)
        watch.call("f", torch.nn.Dropout(), torch.nn.Dropout(), (torch.ones(3),), {})
        watch.finish()
        assert [event for event in noted if "agreed" in event] == []
        torch.equal(torch.ones(1), torch.ones(1))
    assert [event for event in noted if "agreed" in event] == [{"agreed": True, "raised": False}]


# -- what is compared --------------------------------------------------------------------------------------


def differing(eager: Any, compiled: Any) -> list[str]:
    """The paths at which what two calls return differs, and what could not be compared."""
    standing = measured(call_values.returned(eager, ()), call_values.returned(compiled, ()))
    found = [o.path for o in standing.outputs if o.n_diff or Criterion().divergence(o) is not None]
    return found + ([standing.unseen] if standing.unseen else [])


@dataclasses.dataclass
class Result:
    mean: Any
    extra: Any = None


class Handle:
    __slots__ = ()


@pytest.mark.parametrize(
    ("eager", "compiled", "paths"),
    [
        (numpy.ones(3), numpy.ones(3), []),
        (numpy.ones(3), numpy.array([1.0, numpy.nan, 1.0]), ["output[0]"]),
        (numpy.float32(2), numpy.float32(3), ["output[0]"]),
        (numpy.array(["a", "b"]), numpy.array(["a", "c"]), ["output[0], value 1"]),
        (Result(torch.ones(2)), Result(torch.zeros(2)), ["output[0].mean"]),
        (Result(1, [1, 2]), Result(1, [1, 3]), ["output[0].extra, value 1"]),
        ((torch.ones(1), None), (torch.ones(1), torch.ones(1)), ["output[1]", "what it returns"]),
        ([torch.ones(1)], (torch.ones(1),), ["what it returns"]),
        ("a", "b", ["output[0]"]),
        (b"a", b"b", ["output[0]"]),
        (float("nan"), 0.0, ["output[0]"]),
        ({"a": 1}, {"b": 1}, ["what it returns"]),
        (Result({("a", 1): 1, (1, 2): 2}), Result({("a", 1): 0, (1, 2): 2}), ["output[0].mean[('a', 1)]"]),
        (Result({1, 2}), Result({1, 3}), ["output[0].mean, value 1"]),
        (Result({Handle()}), Result({Handle()}), ["output[0].mean, a set, cannot be compared"]),
        (Handle(), Handle(), ["output[0], a Handle, cannot be compared"]),
    ],
)
def test_what_is_no_tensor_is_compared_as_what_it_is(eager: Any, compiled: Any, paths: list[str]) -> None:
    assert differing(eager, compiled) == paths


def test_a_module_that_a_partial_function_binds_is_reached_by_the_name_of_its_parameter() -> None:
    norm = torch.nn.BatchNorm1d(2)
    bound = functools.partial(lambda norm, x: norm(x), norm)
    assert "state[norm.running_mean]" in call_values.state(bound)


def test_what_a_method_of_an_object_changes_is_reached() -> None:
    journal = {"calls": 0}

    class Meter:
        def note(self, t: torch.Tensor) -> torch.Tensor:
            journal["calls"] += 1
            return t

    def step(x: torch.Tensor) -> torch.Tensor:
        return Meter().note(x + 1)

    assert call_values.state(step)["state[journal['calls']]"] == 0
    remembered = State(step)
    step(torch.ones(2))
    assert journal["calls"] == 1
    remembered.put_back()
    assert journal["calls"] == 0


def test_a_method_that_dynamo_must_leave_to_python_is_reached_as_before() -> None:
    journal = {"calls": 0}

    class Meter:
        @torch.compiler.disable
        def note(self) -> None:
            journal["calls"] += 1

    def step(x: torch.Tensor) -> torch.Tensor:
        Meter().note()
        return x + 1

    assert call_values.state(step)["state[journal['calls']]"] == 0


@pytest.mark.parametrize(
    "kept", [Counter(a=2), deque([1, 2], maxlen=3), defaultdict(list, a=[1]), OrderedDict(a=1)], ids=repr
)
def test_a_container_of_the_library_is_reached_and_put_back(kept: Any) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        if isinstance(kept, deque):
            kept.append(7)
        else:
            kept["b"] = 5
        return x + len(kept)

    before, first, remembered = kept.copy(), call_values.state(step), State(step)
    step(torch.ones(2))
    assert call_values.state(step) != first
    remembered.put_back()
    assert kept == before and call_values.state(step) == first


class Tally:
    seen = 0
    names: ClassVar = ["a"]

    @classmethod
    def note(cls) -> None:
        cls.seen += 1
        cls.names.append("b")


class Counted(torch.nn.Module):
    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Tally.note()
        Counted.calls += 1
        return x * 2


def test_what_a_class_holds_is_reached_and_put_back() -> None:
    layer = Counted()
    state = call_values.state(layer)
    assert (state["state[Tally.seen]"], state["state[Counted.calls]"]) == (0, 0)
    remembered = State(layer)
    layer(torch.ones(2))
    assert (Tally.seen, Counted.calls, Tally.names) == (1, 1, ["a", "b"])
    remembered.put_back()
    assert (Tally.seen, Counted.calls, Tally.names) == (0, 0, ["a"])


def test_what_a_module_of_the_users_holds_is_reached_and_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "settings_of_mine.py").write_text("scale = 2\nseen = []\n")
    monkeypatch.syspath_prepend(tmp_path)
    settings = importlib.import_module("settings_of_mine")

    def step(x: torch.Tensor) -> torch.Tensor:
        settings.scale += 1
        settings.seen.append(3)
        return x * settings.scale

    assert call_values.state(step)["state[settings.scale]"] == 2
    remembered = State(step)
    step(torch.ones(2))
    remembered.put_back()
    assert (settings.scale, settings.seen) == (2, [])


# -- instruments that do not show --------------------------------------------------------------------------


def test_what_cannot_be_looked_at_raises_nothing_into_the_script_and_is_no_agreement(
    both: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(model: Any) -> Any:
        raise OverflowError("Overflow when unpacking long long")

    monkeypatch.setattr(call_values, "state", fails)
    kept, compiled = both(lambda: lambda x: x + 1, lambda run: [run(torch.ones(2)) for _ in range(2)])
    assert len(kept.calls) == len(compiled.calls) == 2
    assert shown(kept, compiled, Criterion()).outcome is Outcome.UNRESOLVED
    assert "Overflow" in str(compiled.calls[0].unseen)


def test_calls_of_several_threads_are_told_apart_by_what_they_are_given(both: Any) -> None:
    """Their order is another one in each run."""
    orders = iter([(0, 1, 2), (2, 0, 1)])

    def script(run: Watched) -> None:
        for i in next(orders):
            thread = threading.Thread(target=run, args=(torch.full((2,), float(i)),))
            thread.start()
            thread.join()

    kept, compiled = both(lambda: lambda x: x * 2, script)
    assert len(kept.calls) == len(compiled.calls) == 3
    assert is_exact(compiled) and not shown(kept, compiled, Criterion()).diverges


def test_a_call_that_runs_beside_another_is_none_of_its_parts(both: Any) -> None:
    inside = threading.Barrier(2, timeout=20)

    def meets(x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_compiling():
            inside.wait()
        return x + 1

    def script(run: Watched) -> None:
        threads = [threading.Thread(target=run, args=(torch.full((2,), float(i)),)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    kept, compiled = both(lambda: meets, script)
    assert len(kept.calls) == len(compiled.calls) == 2


# -- through what a difference goes from call to call -------------------------------------------------------


def carried(
    tmp_path: Path, model: Callable[[], Any], script: Script, too: Carrier | None = None
) -> PlainRun:
    """The run with compilation off in which each call gives what it gave compiled. too: as of RunOptions."""
    told: list[dict[str, Any]] = []
    for mode in (Mode.COMPILED_KEPT, Mode.SUBSTITUTED):
        torch.manual_seed(0)
        run = Watched(tmp_path, mode, model())
        run.watch.note = lambda **event: told.append(event)
        if run.watch.channel is not None and hasattr(run.watch.channel, "note"):
            run.watch.channel.note = run.watch.note
        if isinstance(run.watch.channel, Substituted):
            run.watch.channel.too = too
        script(run)
        run.watch.finish()
    parted = [event for event in told if "parted" in event]
    return PlainRun(**parted[0]) if parted else PlainRun()


def off_when_compiled(x: torch.Tensor) -> torch.Tensor:
    return x * 1.5 if torch.compiler.is_compiling() else x * 1.0


def test_what_lies_in_one_memory_in_eager_alone_cannot_be_put_in_its_place(tmp_path: Path) -> None:
    def aliases(x: torch.Tensor) -> torch.Tensor:
        return x * 1.5 if torch.compiler.is_compiling() else x

    found = carried(tmp_path, lambda: aliases, lambda run: run(torch.ones(2)))
    assert (found.parted, found.at) == (0, "")


def test_a_difference_that_goes_through_the_values_of_the_calls_arrives_with_them(tmp_path: Path) -> None:
    def script(run: Watched) -> None:
        x = torch.ones(2)
        for _ in range(3):
            x = run(x) + 1

    assert carried(tmp_path, lambda: off_when_compiled, script).parted is None


def test_a_difference_that_goes_past_the_values_parts_the_runs_where_it_arrives(tmp_path: Path) -> None:
    counts = {"calls": 0}

    def counting(x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_compiling():
            counts["calls"] += 1
        return x + 1

    def script(run: Watched) -> None:
        counts["calls"], x = 0, torch.ones(2)
        for _ in range(3):
            x = run(x) + counts["calls"]

    found = carried(tmp_path, lambda: counting, script)
    assert (found.parted, found.at) == (1, "argument[0]")


@pytest.mark.parametrize(("too", "last"), [(None, (1, 2)), (Carrier.LAYOUT, (2, 1))])
def test_how_a_value_lies_in_memory_goes_with_it_where_that_is_asked(
    tmp_path: Path, too: Carrier | None, last: tuple[int, int]
) -> None:
    seen: list[tuple[int, ...]] = []

    def laid(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y.clone(memory_format=torch.contiguous_format) if torch.compiler.is_compiling() else y

    def script(run: Watched) -> None:
        y = run(torch.ones(2, 2).t().requires_grad_())
        seen.append(y.stride())
        y.sum().backward()

    assert carried(tmp_path, lambda: laid, script, too).parted is None
    assert seen == [(2, 1), last]


class Weighted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return off_when_compiled(x) * self.weight


def test_gradients_go_with_the_values(tmp_path: Path) -> None:
    def script(run: Watched) -> None:
        weight = run.model.weight
        for _ in range(2):
            run.backward(run(torch.ones(2)).sum())
            with torch.no_grad():
                weight.sub_(0.1 * weight.grad)
            weight.grad = None

    assert carried(tmp_path, Weighted, script).parted is None


def test_a_gradient_that_the_script_asks_for_itself_goes_with_the_values(tmp_path: Path) -> None:
    """`torch.autograd.grad`, of a layer beneath the compiled loss, after two calls of it."""
    seen: list[torch.Tensor] = []

    def off_backward(x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_compiling():
            return x.detach() * 1.0 + (x - x.detach()) * 1.5
        return x * 1.0

    def script(run: Watched) -> None:
        weight = torch.ones(2, requires_grad=True)
        hidden = weight * 3.0
        loss = run(hidden).sum() + run(hidden).sum()
        (gradient,) = torch.autograd.grad(loss, weight)
        run(gradient)
        seen.append(gradient)

    assert carried(tmp_path, lambda: off_backward, script).parted is None
    assert seen[0].tolist() == seen[1].tolist() == [9.0, 9.0]


def test_a_gradient_goes_with_the_values_through_a_second_derivative(tmp_path: Path) -> None:
    seen: list[torch.Tensor] = []

    def script(run: Watched) -> None:
        x = torch.full((2,), 2.0, requires_grad=True)
        (gradient,) = torch.autograd.grad(run(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(gradient.sum(), x)
        seen.append(second)

    assert carried(tmp_path, lambda: lambda x: x**3, script).parted is None
    assert seen[0].tolist() == seen[1].tolist() == [12.0, 12.0]


def test_a_gradient_that_the_compiled_run_did_not_have_leaves_it_not_known(tmp_path: Path) -> None:
    def detached(x: torch.Tensor) -> torch.Tensor:
        return x.detach() * 2 if torch.compiler.is_compiling() else x * 2

    def script(run: Watched) -> None:
        x, weight = (torch.ones(2, requires_grad=True) for _ in range(2))
        (run(x) * weight).sum().backward()

    found = carried(tmp_path, lambda: detached, script)
    assert (found.parted, found.at) == (0, "")


def test_rounding_moves_the_values_and_the_gradients_of_calls_alone(tmp_path: Path) -> None:
    given = (torch.arange(1.0, 65.0) / 7).requires_grad_()
    found = list[torch.Tensor]()
    for seed in (None, 0, 0, 1):
        watch = Watch(of(tmp_path, Mode.EAGER_AGAIN, rounded=seed), lambda **event: None)
        x = given.detach().clone().requires_grad_()
        y = watch.call("f", torch.square, torch.square, (x,), {})
        (y / 3).sum().backward()
        watch.finish()
        found += [y.detach(), x.grad]
    plain, moved, again, other = zip(found[::2], found[1::2], strict=True)
    for exact, one, same, else_ in zip(plain, moved, again, other, strict=True):
        torch.testing.assert_close(one, exact, rtol=8e-6, atol=0)
        assert (one != exact).float().mean() > 0.8
        assert torch.equal(one, same) and not torch.equal(one, else_)


def test_a_value_that_a_backward_pass_needs_may_be_given_in_its_place(tmp_path: Path) -> None:
    """The gradient of `tanh` is made of its result."""

    class Bounded(Weighted):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).tanh()

    def script(run: Watched) -> None:
        for _ in range(2):
            run.backward(run(torch.ones(2)).sum())

    assert carried(tmp_path, Bounded, script).parted is None


def test_calls_that_are_noted_are_let_go(tmp_path: Path) -> None:
    watch = Watch(of(tmp_path, Mode.EAGER), lambda **event: None)
    for _ in range(5):
        watch.call("f", abs, abs, (1,), {})
    assert len(watch.open) == 1
    watch.finish()
    assert not watch.open


# -- what a call leaves behind is put back ------------------------------------------------------------------


def shared_norm(norm: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return norm(x).relu()


def test_what_a_call_changes_is_put_back_before_the_next_wherever_it_is_made() -> None:
    norm, x = torch.nn.BatchNorm1d(2), torch.arange(6.0).reshape(3, 2)
    put_back = PutBack(EffectKind.CHANGES_STATE, [place_of(shared_norm.__code__)])
    before = sys.getprofile()
    try:
        put_back.begin()
        shared_norm(norm, x)
        once = norm.running_mean.clone()
        shared_norm(norm, x)
    finally:
        sys.setprofile(before)
    assert torch.equal(norm.running_mean, once)
    shared_norm(norm, x)
    assert not torch.equal(norm.running_mean, once)


def drops(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x)


def adds(x: torch.Tensor) -> torch.Tensor:
    return x.add_(1)


@pytest.mark.parametrize(("kind", "function"), [(EffectKind.DRAWS, drops), (EffectKind.MUTATES, adds)])
def test_draws_and_arguments_are_put_back_too(kind: EffectKind, function: Any) -> None:
    x, before = torch.ones(64), sys.getprofile()
    put_back = PutBack(kind, [place_of(function.__code__)])
    try:
        put_back.begin()
        first, second = function(x).clone(), function(x).clone()
    finally:
        sys.setprofile(before)
    assert torch.equal(first, second)
    assert not torch.equal(function(x), second)


def test_a_call_that_raises_is_compared_by_what_it_leaves_behind(both: Any) -> None:
    def tries(x: torch.Tensor) -> torch.Tensor:
        x.add_(0 if torch.compiler.is_compiling() else 1)
        torch._assert_async(x.isnan().any())
        return x

    def script(run: Watched) -> None:
        with pytest.raises(RuntimeError):
            run(torch.zeros(2))

    kept, compiled = both(lambda: tries, script)
    found = shown(kept, compiled, Criterion())
    assert found.diverges and found.path == "argument[0]"


def test_the_calls_of_a_child_process_are_told_as_not_seen(tmp_path: Path) -> None:
    events = tmp_path / "events"
    watch = Watch(of(tmp_path, Mode.EAGER), lambda **event: events.open("a").write(f"{event}\n"))
    watch.call("f", abs, abs, (1,), {})
    if (child := os.fork()) == 0:
        watch.call("f", abs, abs, (-1,), {})
        watch.call("f", abs, abs, (-1,), {})
        watch.finish()
        os._exit(0)
    os.waitpid(child, 0)
    watch.finish()
    told = events.read_text().splitlines()
    assert len(told) == 2 and sum("child processes" in line for line in told) == 1


def test_the_objects_of_a_set_have_no_names() -> None:
    taps = {Tap(i) for i in range(3)}

    def echo(x: torch.Tensor) -> torch.Tensor:
        return sum((x * tap.delay for tap in taps), x)

    assert not [path for path in call_values.state(echo) if "delay" in path]


class Tap:
    def __init__(self, delay: int) -> None:
        self.delay = delay

    def shifted(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.delay


def test_a_scalar_of_numpys_is_given_as_one_where_dynamo_makes_an_array_of_it(tmp_path: Path) -> None:
    history: list[list[float]] = []

    def total(x: torch.Tensor) -> Any:
        made = numpy.float32(3.0)
        return numpy.array(made) if torch.compiler.is_compiling() else made

    def script(run: Watched) -> None:
        kept, running = [], run(torch.ones(2))
        for _ in range(2):
            kept.append(running)
            running += 1
        history.append([float(one) for one in kept])

    assert carried(tmp_path, lambda: total, script).parted is None
    assert history[1] == [3.0, 4.0]
