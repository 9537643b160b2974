"""No module of `bisector` imports itself by way of others, nor does a folder by way of what stands beside it;
the packages have an order.

Imports inside functions count; those for type checkers alone do not.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache

import pytest

from tests.test_architecture import MODULES, imported

Graph = Mapping[str, set[str]]
# From the bottom up: what stands in a line imports from the lines before it alone.
ORDER = """
    core errors processes
    builds report subject tracing wire
    request_json
    inductor runner
    attached explain
    cli
    __main__
    """
LONGEST = 14  # modules in a chain of imports; this falls with each module that is taken out of one
FOLDERS = [name for name, path in MODULES.items() if path.name == "__init__.py"]


class _AtRunTime(ast.NodeTransformer):
    """Leaves out what stands under `if TYPE_CHECKING`."""

    def visit_If(self, node: ast.If) -> ast.AST:
        if ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            node.body = [ast.Pass()]
        return self.generic_visit(node)


def imports_of(source: str, module: str, is_package: bool = False) -> set[str]:
    """The modules of `bisector` that this source imports, if it is that module; packages above one come with
    it, except those that the importing module is in."""
    found: set[str] = set()
    for name in imported(_AtRunTime().visit(ast.parse(source)), module, is_package):
        found |= with_packages(name) & MODULES.keys()
    return {other for other in found if not f"{module}.".startswith(f"{other}.")}


def with_packages(name: str) -> set[str]:
    parts = name.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts) + 1)}


def graph_of_modules() -> Graph:
    return {
        module: imports_of(path.read_text(encoding="utf-8"), module, path.name == "__init__.py")
        for module, path in MODULES.items()
    }


def within(folder: str, graph: Graph) -> Graph:
    """What stands directly in the folder, and what of it imports what."""
    found: dict[str, set[str]] = {}
    for module, others in graph.items():
        for other in others:
            one, two = part_of(folder, module), part_of(folder, other)
            if one and two and one != two:
                found.setdefault(one, set()).add(two)
    return found


def part_of(folder: str, module: str) -> str:
    """The file or folder directly in `folder` that the module is or is in; empty where it is in neither."""
    inside = module.removeprefix(f"{folder}.") if module.startswith(f"{folder}.") else ""
    return inside.partition(".")[0]


def cycles(graph: Graph) -> list[list[str]]:
    """Of what imports itself by way of others: the members of each cycle, or of several that share some."""
    reached = {start: reachable(graph, start) for start in graph}
    turning = [name for name in graph if name in reached[name]]
    groups = {frozenset(b for b in turning if b in reached[a] and a in reached[b]) for a in turning}
    return sorted(sorted(group) for group in groups)


def reachable(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    ahead = list(graph.get(start, ()))
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += graph.get(name, ())
    return found


def longest_chain(graph: Graph) -> tuple[str, ...]:
    """The most modules of which each imports the next; the graph has no cycles."""

    @cache
    def from_here(module: str) -> tuple[str, ...]:
        below = [from_here(other) for other in sorted(graph[module])]
        return (module, *max(below, key=len, default=()))

    return max(map(from_here, graph), key=len)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return graph_of_modules()


def test_no_module_imports_itself_by_way_of_others(graph: Graph) -> None:
    assert cycles(graph) == []


def test_a_reader_follows_no_longer_chain_of_imports_than_this(graph: Graph) -> None:
    assert len(longest_chain(graph)) <= LONGEST


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_part_of_a_folder_imports_itself_by_way_of_others(folder: str, graph: Graph) -> None:
    assert cycles(within(folder, graph)) == []


def test_a_package_imports_only_what_stands_below_it(graph: Graph) -> None:
    lines = [line.split() for line in ORDER.strip().splitlines()]
    rank = {name: height for height, line in enumerate(lines) for name in line}
    assert rank.keys() == {part_of("bisector", module) for module in graph} - {""}
    arrows = within("bisector", graph)
    upwards = [(a, b) for a, others in arrows.items() for b in others if rank[a] <= rank[b]]
    assert upwards == []


LATE = "def late():\n    from ..{} import {}"


@pytest.mark.parametrize(
    ("module", "source", "other"),
    [
        ("bisector.core.judge", "from .model import Outcome", "bisector.core.model"),
        ("bisector.core.judge", "from . import model", "bisector.core.model"),
        ("bisector.core.judge", "import bisector.core.model", "bisector.core.model"),
        ("bisector.core.judge", "from .search.sets import Found", "bisector.core.search"),
        ("bisector.core.judge", LATE.format("runner", "lab"), "bisector.runner.lab"),
        ("bisector.core.search", "from .sets import Found", "bisector.core.search.sets"),
    ],
)
def test_an_import_is_seen_in_every_form(module: str, source: str, other: str) -> None:
    assert other in imports_of(source, module, is_package=module in FOLDERS)


def test_an_import_for_type_checkers_and_the_packages_around_a_module_do_not_count() -> None:
    for_checkers = "if TYPE_CHECKING:\n    from .model import Outcome"
    assert imports_of(for_checkers, "bisector.core.judge") == set()
    assert imports_of("import bisector.core", "bisector.core.judge") == set()


@pytest.mark.parametrize(
    ("edges", "found"),
    [
        ("ab bc", []),
        ("ab ba", [["a", "b"]]),
        ("ab bc ca cd", [["a", "b", "c"]]),
        ("ab ba cd dc bc", [["a", "b"], ["c", "d"]]),
    ],
)
def test_cycles_of_every_length_are_found(edges: str, found: list[list[str]]) -> None:
    made: dict[str, set[str]] = {}
    for one, two in edges.split():
        made.setdefault(one, set()).add(two)
    assert cycles(made) == found


def test_a_folder_is_one_part_of_the_folder_that_it_is_in() -> None:
    made = {"x.sub.a": {"x.c"}, "x.c": {"x.sub.b"}, "x.sub.b": {"y.d"}}
    assert cycles(made) == []
    assert cycles(within("x", made)) == [["c", "sub"]]


def test_the_longest_of_several_chains_is_found() -> None:
    assert longest_chain({"a": {"b", "d"}, "b": {"c"}, "c": {"d"}, "d": set()}) == ("a", "b", "c", "d")
