"""Names of FX nodes."""

from __future__ import annotations

import torch
from torch.fx import Graph, Node
from torch.fx.traceback import NodeSource

from bisector.inductor import naming


def add(graph: Graph, op: object, *args: object, root: str | None = None) -> Node:
    node = graph.call_function(op, args)
    if root is not None:
        source = Graph().placeholder(root)
        source.name = root
        node.meta["from_node"] = [NodeSource(source, "test")]
    return node


MUL, ADD = torch.ops.aten.mul.Tensor, torch.ops.aten.add.Tensor


def test_a_node_is_named_by_its_dynamo_node() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    assert naming.node_name(add(graph, MUL, x, x, root="gelu")) == "gelu"


def test_a_node_that_a_pass_made_takes_its_inputs_name() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    made = add(graph, ADD, add(graph, MUL, x, x, root="gelu"), x)
    assert naming.node_name(made) == "gelu"


def test_a_gradient_is_named_by_the_forward_node_it_belongs_to() -> None:
    graph = Graph()
    node = add(graph, MUL, graph.placeholder("tangents_1"), 2)
    node.meta |= {"partitioner_tag": "is_backward", "fwd_source_fn_stack": [("gelu", "gelu")]}
    assert naming.node_name(node) == "bwd.gelu"


def test_every_node_of_a_marked_graph_is_a_backward_node() -> None:
    graph = Graph()
    node = add(graph, MUL, graph.placeholder("x"), 2, root="gelu")
    naming.mark_backward(graph)
    assert naming.node_name(node) == "bwd.gelu"


def test_nodes_of_one_op_in_one_dynamo_node_are_numbered() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    nodes = [add(graph, op, x, x, root="gelu") for op in (MUL, ADD, MUL)]
    assert [naming.op_detail(n) for n in nodes] == ["aten.mul", "aten.add", "aten.mul#1"]
    assert [naming.handle(n) for n in nodes] == ["gelu.mul", "gelu.add", "gelu.mul_1"]


def test_a_number_stays_when_a_sibling_is_removed() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    first, second = add(graph, MUL, x, x, root="gelu"), add(graph, MUL, x, x, root="gelu")
    assert naming.op_detail(second) == "aten.mul#1"
    graph.erase_node(first)
    third = add(graph, MUL, x, x, root="gelu")
    assert (naming.op_detail(second), naming.op_detail(third)) == ("aten.mul#1", "aten.mul#2")


def test_a_node_alone_in_its_dynamo_node_needs_no_suffix() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    node = add(graph, MUL, x, x, root="ratio")
    assert (naming.suffix(node), naming.handle(node)) == ("", "ratio")


def test_the_place_is_the_innermost_frame() -> None:
    trace = 'File "/a/model.py", line 3, in forward\n  y = f(x)\nFile "/a/layers.py", line 9, in f\n  pass'
    assert naming.where_in(trace) == "/a/layers.py:9"
    assert naming.where_in(None) == ""
