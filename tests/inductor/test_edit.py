"""Edits of a captured graph: what is left computes what eager computed there, under the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bisector.core.case import WHOLE, Case, Slice
from bisector.inductor.graph.edit import CannotEdit, Edited, apply
from bisector.inductor.graph.liveness import mutates, written
from bisector.inductor.graph.smaller_inputs import compact, simplify
from bisector.inductor.tensors import lies_as_new

X = torch.arange(12.0).reshape(3, 4)


class Captured:
    """The graph that Dynamo makes of a call, and its inputs."""

    def __init__(self, fn: Callable[..., Any], *args: Any) -> None:
        graphs: list[tuple[Any, list[Any]]] = []

        def backend(gm: Any, example_inputs: list[Any]) -> Any:
            def keep(*inputs: Any) -> Any:
                copies = [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in inputs]
                graphs.append((gm, copies))
                return torch.fx.Interpreter(gm).run(*inputs)

            return keep

        torch._dynamo.reset()
        torch.compile(fn, backend=backend, dynamic=False)(*args)
        [(self.gm, self.args)] = graphs
        self.requires_grad = [isinstance(a, torch.Tensor) and a.requires_grad for a in args]
        self.requires_grad += [False] * (len(self.args) - len(args))

    @property
    def calls(self) -> list[str]:
        return calls(self.gm)

    def apply(self, case: Case) -> Edited:
        return apply(self.gm, self.args, self.requires_grad, case, lambda: None)

    def values(self) -> dict[str, Any]:
        """What eager gives every node, as it is when the node has run."""
        found: dict[str, Any] = {}

        class Tap(torch.fx.Interpreter):
            def run_node(self, n: Any) -> Any:
                result = super().run_node(n)
                found[n.name] = result.clone() if isinstance(result, torch.Tensor) else result
                return result

        Tap(self.gm).run(*[a.clone() if isinstance(a, torch.Tensor) else a for a in self.args])
        return found


def calls(gm: Any) -> list[str]:
    return [n.name for n in gm.graph.nodes if n.op.startswith("call")]


def run(edited: Edited) -> list[Any]:
    result = torch.fx.Interpreter(edited.gm).run(
        *[a.clone() if isinstance(a, torch.Tensor) else a for a in edited.args]
    )
    return list(result) if isinstance(result, (tuple, list)) else [result]


def run_on_copies(edited: Edited) -> dict[str, Any]:
    """The inputs by name, as a run leaves them."""
    held = [a.clone() for a in edited.args]
    torch.fx.Interpreter(edited.gm).run(*held)
    return dict(zip(edited.input_names(), held, strict=True))


def chain(x: Any) -> Any:
    a = x + 1
    b = a * 2
    c = b.sin()
    d = c + a
    return d.sum(-1)


@pytest.fixture(scope="module")
def captured() -> Captured:
    return Captured(chain, X)


def test_no_edit_leaves_the_graph_as_it_is(captured: Captured) -> None:
    edited = captured.apply(WHOLE)
    assert calls(edited.gm) == captured.calls == ["a", "b", "c", "d", "sum_1"]
    assert torch.equal(run(edited)[0], chain(X))
    assert edited.outputs_kept


def test_a_cut_node_is_an_input_of_its_name_that_holds_eagers_value(captured: Captured) -> None:
    edited = captured.apply(WHOLE.with_cut("b"))
    assert "b" in edited.input_names()
    assert calls(edited.gm) == ["a", "c", "d", "sum_1"]
    assert torch.equal(edited.args[edited.input_names().index("b")], (X + 1) * 2)
    assert torch.equal(run(edited)[0], chain(X))


def test_what_only_a_cut_node_needed_falls_away_with_its_inputs(captured: Captured) -> None:
    edited = captured.apply(WHOLE.with_cut("a", "c"))
    assert calls(edited.gm) == ["d", "sum_1"]
    assert sorted(edited.input_names()) == ["a", "c"]
    assert torch.equal(run(edited)[0], chain(X))


def test_who_reads_a_bypassed_node_reads_the_other(captured: Captured) -> None:
    edited = captured.apply(WHOLE.with_bypass("c", "b"))
    assert calls(edited.gm) == ["a", "b", "d", "sum_1"]
    assert torch.equal(run(edited)[0], ((X + 1) * 2 + (X + 1)).sum(-1))


def test_other_outputs_end_the_graph_there(captured: Captured) -> None:
    edited = captured.apply(Case(outputs=("b",)))
    assert calls(edited.gm) == ["a", "b"]
    assert not edited.outputs_kept
    assert torch.equal(run(edited)[0], (X + 1) * 2)


def test_several_outputs_come_in_the_order_they_are_named(captured: Captured) -> None:
    c, a = run(captured.apply(Case(outputs=("c", "a"))))
    assert torch.equal(a, X + 1)
    assert torch.equal(c, ((X + 1) * 2).sin())


def test_a_slice_keeps_that_part_of_an_input(captured: Captured) -> None:
    [name] = [n.name for n in captured.gm.graph.nodes if n.op == "placeholder"]
    edited = captured.apply(WHOLE.with_slice(Slice(name, 0, 1, 2), Slice(name, 1, 3, 1)))
    assert torch.equal(edited.args[0], X[1:3, 3:])
    assert torch.equal(run(edited)[0], chain(X[1:3, 3:]))


def test_a_slice_may_keep_indices_that_lie_apart(captured: Captured) -> None:
    edited = captured.apply(WHOLE.with_slice(Slice("l_x_", 1, 0, 2, step=3)))
    assert torch.equal(edited.args[0], X[:, [0, 3]])


@pytest.mark.parametrize("make", [torch.nn.Parameter, torch.Tensor.clone])
def test_what_a_graph_carries_itself_is_cut_and_simplified_as_an_input_is(make: Callable[..., Any]) -> None:
    root = torch.nn.Module()
    root.layer = torch.nn.Module()
    root.layer.weight = make(X)
    graph = torch.fx.Graph()
    graph.output((graph.call_function(torch.add, (graph.placeholder("x"), graph.get_attr("layer.weight"))),))
    gm = torch.fx.GraphModule(root, graph)
    case = WHOLE.with_slice(Slice("x", 0, 1, 2), Slice("layer_weight", 0, 1, 2))
    edited = apply(gm, [X], [False], case.with_value("layer_weight", "ones"), lambda: None)
    assert torch.equal(run(edited)[0], X[1:] + 1)
    assert type(edited.gm.layer.weight) is type(gm.layer.weight)
    assert torch.equal(gm.layer.weight, X), "the captured graph keeps its own"


def test_a_cut_node_can_be_sliced_too(captured: Captured) -> None:
    edited = captured.apply(WHOLE.with_cut("a").with_slice(Slice("a", 0, 2, 1)))
    assert torch.equal(run(edited)[0], chain(X[2:]))


def test_edits_over_a_base_see_its_smaller_inputs(captured: Captured) -> None:
    [name] = [n.name for n in captured.gm.graph.nodes if n.op == "placeholder"]
    base = WHOLE.with_slice(Slice(name, 0, 0, 1))
    edited = captured.apply(base.rebased().with_cut("c"))
    assert edited.args[edited.input_names().index("c")].shape == (1, 4)
    assert torch.equal(run(edited)[0], chain(X[:1]))
    assert edited.outputs_kept
    assert not captured.apply(Case(outputs=("b",), base=base)).outputs_kept
    assert not captured.apply(Case(cut=("a",), base=Case(outputs=("b",)))).outputs_kept


@pytest.mark.parametrize(
    "case",
    [
        WHOLE.with_cut("nobody"),
        WHOLE.with_bypass("c", "nobody"),
        Case(outputs=("nobody",)),
        WHOLE.with_slice(Slice("l_x_", 0, 2, 2)),
        WHOLE.with_slice(Slice("l_x_", 5, 0, 1)),
    ],
)
def test_an_edit_that_cannot_be_made_says_so(captured: Captured, case: Case) -> None:
    with pytest.raises(CannotEdit):
        captured.apply(case)


def test_a_slice_of_an_input_that_is_gone_is_nothing(captured: Captured) -> None:
    case = WHOLE.with_slice(Slice("l_x_", 0, 0, 1)).with_cut("a")
    edited = captured.apply(Case(cut=("a",), bypass=(("c", "b"),), slices=case.slices))
    assert edited.input_names() == ["a"]


def test_sizes_follow_a_slice() -> None:
    captured = Captured(lambda x: x.view(3, 2, 2).sum(1), X)
    edited = captured.apply(WHOLE.with_slice(Slice("l_x_", 0, 0, 1)).with_size(3, 1))
    assert torch.equal(run(edited)[0], X[:1].view(1, 2, 2).sum(1))


def test_values_are_made_simple() -> None:
    x = torch.tensor([[123.456, -0.001234], [0.0, 7.0]])
    captured = Captured(lambda x, y: x + y, x, x.clone())
    edited = captured.apply(WHOLE.with_value("l_x_", "digits:2").with_value("l_y_", "ones"))
    assert torch.equal(edited.args[0], torch.tensor([[120.0, -0.0012], [0.0, 7.0]]))
    assert torch.equal(edited.args[1], torch.ones(2, 2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_simple_values_keep_dtype_strides_and_what_is_not_finite(dtype: Any) -> None:
    x = torch.tensor([[1 / 3, float("inf")], [float("nan"), -0.0]], dtype=dtype).t()
    simple = simplify(x, "digits:2")
    assert (simple.dtype, simple.stride()) == (dtype, x.stride())
    assert torch.equal(simple.isfinite(), x.isfinite())
    assert simple[0, 0] == torch.tensor(0.33, dtype=dtype)
    assert torch.signbit(simple[1, 1])


@pytest.mark.parametrize(
    ("how", "values"),
    [
        ("zeros", [0, 0, 0, 0]),
        ("ones", [1, 1, 1, 1]),
        ("same:2", [-7.5, -7.5, -7.5, -7.5]),
        ("only:1", [0, 2.25, 0, 0]),
        ("integers", [0, 2, -8, 100]),
    ],
)
def test_values_are_simplified_as_they_are_counted_in_the_flattened_input(how: str, values: Any) -> None:
    x = torch.tensor([[0.25, -7.5], [2.25, 100.4]]).t()
    simple = simplify(x, how)
    assert simple.reshape(-1).tolist() == values
    assert simple.stride() == x.stride()


def test_a_scaled_input_is_multiplied_after_it_was_sliced_and_rounded_once() -> None:
    x = torch.randn(4, 3, dtype=torch.float16).t()
    captured = Captured(lambda x: x + 1, x)
    edited = captured.apply(WHOLE.with_slice(Slice("l_x_", 1, 2, 2)).with_scale("l_x_", 1 / 3))
    assert torch.equal(edited.args[0], (x[:, 2:].double() / 3).half())
    assert edited.args[0].stride() == x[:, 2:].t().contiguous().t().stride()


def test_a_part_is_compact_and_keeps_the_order_of_its_dimensions() -> None:
    image = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    part = compact(image[:, :, 2:4, 1:5])
    assert torch.equal(part, image[:, :, 2:4, 1:5])
    assert part.is_contiguous(memory_format=torch.channels_last)
    assert part.untyped_storage().nbytes() == part.numel() * 4
    assert compact(X.t()[1:]).stride() == (1, 3)
    assert lies_as_new(compact(X[1:]))


def test_an_input_becomes_contiguous_in_memory_of_its_own_before_its_values_become_simpler() -> None:
    whole = torch.randn(8, 5)
    captured = Captured(lambda x, y, z: x * z + y.sum(), whole[:4].t(), whole[4].expand(3, 5), whole[4:].t())
    edited = captured.apply(
        WHOLE.with_contiguous("l_x_", "l_y_").with_slice(Slice("l_x_", 1, 1, 2)).with_value("l_x_", "ones")
    )
    x, z, y = edited.args
    assert x.stride() == (2, 1)
    assert torch.equal(x, torch.ones(5, 2))
    assert torch.equal(y, whole[4].expand(3, 5))
    assert lies_as_new(x)
    assert lies_as_new(y)
    assert z.stride() == (1, 5)


def test_all_floating_point_inputs_are_cast_in_their_strides_and_casts_in_the_graph_stay() -> None:
    x, y = torch.randn(3, 2, dtype=torch.bfloat16).t(), torch.randn(3, dtype=torch.float64)
    captured = Captured(lambda x, i, y: x.to(torch.float64)[i] + y, x, torch.tensor(1), y)
    edited = captured.apply(WHOLE.with_dtype("float32"))
    made = dict(zip(edited.input_names(), edited.args, strict=True))
    assert torch.equal(made["l_x_"], x.float())
    assert made["l_x_"].stride() == x.stride()
    assert made["l_i_"].dtype is torch.int64
    assert torch.equal(made["l_y_"], y.float())
    assert torch.equal(run(edited)[0], x.double()[1] + y.float())


def test_a_node_that_is_cut_holds_what_eager_gave_it_before_inputs_are_cast() -> None:
    captured = Captured(chain, X.to(torch.bfloat16))
    edited = captured.apply(WHOLE.with_cut("b").with_dtype("float32"))
    assert torch.equal(
        edited.args[edited.input_names().index("b")], ((X.to(torch.bfloat16) + 1) * 2).float()
    )


# -- what has an effect but no reader -----------------------------------------------------------------------


def test_a_write_into_what_is_kept_stays() -> None:
    def fn(x: Any) -> Any:
        a = x + 1
        a.add_(5)
        return a * 2

    captured = Captured(fn, X)
    edited = captured.apply(WHOLE)
    assert len(calls(edited.gm)) == len(captured.calls) == 3
    assert torch.equal(run(edited)[0], (X + 6) * 2)


def test_a_write_into_a_view_of_what_is_kept_stays() -> None:
    def fn(x: Any) -> Any:
        a = x + 1
        a[1].mul_(0)
        a[0, 2] = 9
        return a * 2

    captured = Captured(fn, X)
    expected = fn(X)
    assert torch.equal(run(captured.apply(WHOLE))[0], expected)
    last = captured.calls[-1]
    assert torch.equal(run(captured.apply(Case(outputs=(last,))))[0], expected)


def test_a_write_into_an_input_stays_with_it() -> None:
    def fn(x: Any) -> Any:
        x.add_(1)
        return x * 2

    captured = Captured(fn, X.clone())
    edited = captured.apply(WHOLE)
    held = [a.clone() for a in edited.args]
    torch.fx.Interpreter(edited.gm).run(*held)
    assert torch.equal(held[0], X + 1)


def test_a_write_into_an_input_stays_though_nothing_reads_it_again() -> None:
    def fn(x: Any, state: Any) -> Any:
        update = x * 3
        state.view(-1)[1:].sub_(update.view(-1)[1:])
        return x + 1

    captured = Captured(fn, X, X.clone())
    held = run_on_copies(captured.apply(WHOLE.with_cut("update")))
    assert torch.equal(held["l_state_"].view(-1)[1:], -2 * X.view(-1)[1:])


def test_an_input_that_is_returned_keeps_what_is_written_into_it_and_no_more() -> None:
    def fn(x: Any, state: Any, other: Any) -> Any:
        state.mul_(2).add_(x * 3)
        other.add_(1)
        return x.sin()

    captured = Captured(fn, X, X.clone(), X.clone())
    edited = captured.apply(Case(outputs=("l_state_",)))
    assert not [c for c in calls(edited.gm) if "sin" in c]
    assert "l_other_" not in edited.input_names()
    assert torch.equal(run_on_copies(edited)["l_state_"], 5 * X)


def test_what_a_normalization_counts_stays_with_it() -> None:
    def fn(x: Any, mean: Any, var: Any) -> Any:
        return torch.nn.functional.batch_norm(x, mean, var, training=True).sin()

    edited = Captured(fn, X, torch.zeros(4), torch.ones(4)).apply(Case(outputs=("l_mean_",)))
    assert [c for c in calls(edited.gm) if "norm" in c] == calls(edited.gm)
    assert torch.allclose(run_on_copies(edited)["l_mean_"], 0.1 * X.mean(0))


def test_a_write_into_what_is_gone_goes_too() -> None:
    def fn(x: Any) -> Any:
        a = x + 1
        a.add_(5)
        b = a * 2
        return b + 1

    captured = Captured(fn, X)
    edited = captured.apply(WHOLE.with_cut("b"))
    assert len(calls(edited.gm)) == 1
    assert torch.equal(run(edited)[0], fn(X))


def test_a_node_that_is_cut_holds_its_value_from_before_a_later_write() -> None:
    def fn(x: Any) -> Any:
        a = x + 1
        b = a * 3
        a.mul_(0)
        return b + a

    captured = Captured(fn, X)
    edited = captured.apply(WHOLE.with_cut("a"))
    assert torch.equal(edited.args[edited.input_names().index("a")], X + 1)
    assert torch.equal(run(edited)[0], fn(X))


def test_autocast_around_a_kept_node_stays() -> None:
    def fn(x: Any, w: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ w
        return y.float() + 1

    captured = Captured(fn, X, X.t().contiguous())
    edited = captured.apply(Case(outputs=("y",)))
    assert [c for c in calls(edited.gm) if "autocast" in c] == ["_enter_autocast", "_exit_autocast"]
    assert run(edited)[0].dtype is torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")


def test_no_grad_around_a_kept_node_stays() -> None:
    def fn(x: Any) -> Any:
        a = x * 2
        with torch.no_grad():
            b = a * 3
        return b + a

    captured = Captured(fn, X.clone().requires_grad_())
    edited = captured.apply(WHOLE)
    x = X.clone().requires_grad_()
    torch.fx.Interpreter(edited.gm).run(x)[0].sum().backward()
    assert torch.equal(x.grad, torch.full_like(X, 2.0))
    assert torch.is_grad_enabled()


def test_a_cut_node_requires_gradients_where_it_did() -> None:
    captured = Captured(chain, X.clone().requires_grad_())
    edited = captured.apply(WHOLE.with_cut("a", "b"))
    assert dict(zip(edited.input_names(), edited.requires_grad, strict=True)) == {"a": True, "b": True}


def test_random_numbers_are_those_of_the_recorded_state() -> None:
    captured = Captured(lambda x: torch.rand_like(x) + x, X)
    seeds: list[None] = []

    def put_back() -> None:
        seeds.append(None)
        torch.manual_seed(0)

    name = captured.calls[0]
    edited = apply(captured.gm, captured.args, [False], WHOLE.with_cut(name), put_back)
    torch.manual_seed(0)
    assert torch.equal(edited.args[edited.input_names().index(name)], torch.rand_like(X))
    assert seeds


@pytest.mark.parametrize(
    ("write", "names"),
    [
        (lambda x, y: x.add_(y), ["x"]),
        (lambda x, y: torch.add(x, 1, out=y), ["y"]),
        (lambda x, y: torch.ops.aten._foreach_add_.Scalar([x, y], 1), ["x", "y"]),
        (lambda x, y: torch.ops.aten.set_.source_Tensor(x, y), ["x"]),
        (lambda x, y: torch.nn.functional.batch_norm(x, None, running_var=y), ["y"]),
        (lambda x, y: torch.add(x, y), []),
    ],
)
def test_what_a_call_writes_into_is_known(write: Callable[..., Any], names: list[str]) -> None:
    node = [n for n in torch.fx.symbolic_trace(write).graph.nodes if n.op.startswith("call")][-1]
    assert [n.name for n in written(node)] == names


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda x: x.add_(1), True),
        (lambda x: x.add(1), False),
        (lambda x: torch.relu_(x), True),
        (lambda x: torch.add(x, 1), False),
        (lambda x: torch.nn.functional.relu(x, inplace=True), True),
        (lambda x: torch.add(x, 1, out=x), True),
        (lambda x: torch.ops.aten.add_.Tensor(x, x), True),
        (lambda x: torch.ops.aten.add.Tensor(x, x), False),
        (lambda x: x.__add__(1), False),
        (lambda x: x.fill_(0), True),
    ],
)
def test_a_node_that_writes_is_known_as_one(write: Callable[[Any], Any], expected: bool) -> None:
    node = next(n for n in torch.fx.symbolic_trace(write).graph.nodes if n.op.startswith("call"))
    assert mutates(node) is expected


# -- any edit of any node -----------------------------------------------------------------------------------


def busy(x: Any, w: Any) -> Any:
    a = x @ w
    b = a.relu()
    c = b.view(3, -1).transpose(0, 1)
    d = torch.cat([c, c * 2], 1)
    e, f = d.split(3, 1)
    g = e + f
    g.add_(1)
    h = g.softmax(-1)
    return h, (h * g).sum()


@pytest.fixture(scope="module")
def busy_captured() -> Captured:
    torch.manual_seed(0)
    return Captured(busy, X, torch.randn(4, 6))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_is_cut_and_returned_has_eagers_value_and_its_own_name(
    busy_captured: Captured, data: st.DataObject
) -> None:
    values = busy_captured.values()
    tensors = [n for n in busy_captured.calls if isinstance(values[n], torch.Tensor)]
    wanted = data.draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=3, unique=True))
    others = [n for n in tensors if n not in wanted and "add_" not in n]
    cut = data.draw(st.lists(st.sampled_from(others), max_size=3, unique=True))
    edited = busy_captured.apply(Case(cut=tuple(sorted(cut)), outputs=tuple(wanted)))
    assert set(calls(edited.gm)) <= set(busy_captured.calls) - set(cut)
    writes_later = {"g"}  # returned, it is as the write left it
    for name, result in zip(wanted, run(edited), strict=True):
        if name not in writes_later:
            assert torch.equal(result, values[name]), name


def test_calls_that_may_be_views_and_meet_again_and_again_are_looked_at_once() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    last = x
    for _ in range(64):  # 2**64 ways through it, and no value that says what is a view
        sides = graph.call_method("t", (last,)), graph.call_method("t", (last,))
        last = graph.call_function(torch.add, sides)
    graph.output((x,))
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    assert calls(apply(gm, [X], [False], WHOLE, lambda: None).gm) == []
