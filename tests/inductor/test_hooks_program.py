"""What is decided where a script runs: which functions Dynamo traces, which compiled code runs again, which
graph is taken from a cache. Each is denied in a script that shows it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bisector import processes, wire
from bisector.core.case import WHOLE
from bisector.core.criterion import Criterion
from bisector.core.messages import ProgramOptions
from bisector.core.model import Base, Candidate, Measurement
from bisector.core.printed import PrintedLine
from bisector.core.program import KEPT, OFF, PROGRAM, Mode, PlainOptions
from bisector.core.protocol import About, DigestCode, ExplainReuse, ListSteps, RunProbe
from bisector.core.reuse import NOT_BY_CHANGES, Changed, Let
from bisector.explain.script_runs import ROOT, WATCHED, read_run
from bisector.runner.worker_client import Worker
from tests.inductor.workers import answers, working

pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("warm_workers")
Probe = Callable[..., Measurement]
TRACED = """
import torch

def told(x):
    print("traced" if torch.compiler.is_compiling() else "run")
    return x + 1

def inner(x):
    return x + (1 if torch.compiler.is_compiling() else 0)

def outer(x):
    return inner(x * 2)

scale = [1.0]

@torch._dynamo.assume_constant_result
def hidden():
    return scale[0]

def scaled(x):
    return x * hidden() * scale.__len__()

x = torch.ones(3)
torch.compile(told, backend="eager")(x)
torch.compile(outer, backend="eager", fullgraph=True)(x)
made = torch.compile(scaled, backend="eager")
for scale[0] in (1.0, 1.0, 2.0):
    made(x)
"""
CACHED = """
import torch

def step(x):
    return (x * 2 + 1).sum()

for _ in range(2):
    torch._dynamo.reset()
    torch.compile(step)(torch.ones(3))
"""


OF_MANY_KINDS = """
import torch

@torch.compile
def first(x):
    return x + 1

@torch.compile
def second(x, w):
    y = torch.nn.functional.gelu(x.half().float() @ w + x.mean(-1, keepdim=True))
    z = torch.softmax(y * 3, -1) - y.sum()
    return torch.cat([z.reshape(4, 16), torch.zeros_like(z).reshape(4, 16) + y.reshape(4, 16) / 3])

x, w = torch.linspace(-2, 2, 64).reshape(8, 8), torch.linspace(-1, 1, 64).reshape(8, 8)
second(first(x), w)
"""


DYNAMIC = """
import random
import torch

die = random.Random(3)

def noisy(x):
    return x + die.randint(0, 1000)

made = torch.compile(noisy, dynamic=True, backend="eager")
for size in (3, 4, 5, 6):
    made(torch.zeros(size))
"""
CHANGING = """
import itertools
import torch

rates, seen, numbers = {"slow": 0.5, "fast": 1.0}, [], itertools.count(1)
gain, bias = 1.0, 0.0

def by_entry(x):
    return x * rates["slow"] + 0 * len(seen)

def by_two(x):
    return x * gain + bias * x.mean()

@torch._dynamo.assume_constant_result
def drawn():
    return next(numbers)

def by_what_is_not_seen(x):
    return x * drawn()

entry, two, unseen = (
    torch.compile(one, backend="eager", options={"guard_filter_fn": torch.compiler.skip_all_guards_unsafe})
    for one in (by_entry, by_two, by_what_is_not_seen)
)
x = torch.ones(3, requires_grad=True)
entry(x)
seen.append(1)
rates["slow"], rates["fast"] = 2.0, 3.0
entry(x)
two(x)
gain, bias = 3.0, 5.0
two(x).sum().backward()
unseen(x)
unseen(x)
"""
BESIDE = """
import torch

FILTERED = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
gain, table = 1.0, {"old": 1.0}
weight = torch.ones(3)

class Config:
    rate = 1.0

def scaled(x):
    if "new" in table and table["new"] is None:
        raise KeyError("new")
    return x * gain, (x * weight).sum()

def rated(x, config):
    return x * config.rate

def cast(x, w):
    return x * w if torch.is_autocast_enabled("cpu") else x * w * 2

one, two, three = (
    torch.compile(f, backend="eager", options=dict(FILTERED)) for f in (scaled, rated, cast)
)
x, config = torch.ones(3), Config()
one(x)
gain, table["new"] = 1.5, 7.0
weight.fill_(1.5)
del table["old"]
one(x)
two(x, config)
config.rate = 3.0
two(x, config)
w = torch.ones(3, 3)
three(x, w)
with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    three(x, w)
"""
KEYED = """
import torch

slope, calls = 0.5, 0
library = torch.library.Library("numbisect_keyed", "DEF")
library.define("leaky(Tensor x) -> Tensor")
library.impl("leaky", lambda x: torch.where(x > 0, x, x * slope), "CompositeImplicitAutograd")

def scaled(x):
    return torch.ops.numbisect_keyed.leaky(x) * 2

x = torch.linspace(-1, 1, 8)
torch.compile(scaled)(x)
torch._dynamo.reset()
slope, calls = 3.0, 1
torch.compile(scaled)(x)
"""
STEPS = """
import torch

class Meter:
    total = 0

meter = Meter()

def helper(x):
    return x + (1 if torch.compiler.is_compiling() else 0)

def outer(x, table):
    meter.total = x.shape[0]
    table["a"] = x * 2
    doubled = x.mul(2)
    return helper(torch.sin(x)) + table["a"].sum(
        -1
    )

torch.compile(outer, backend="eager", fullgraph=True)(torch.ones(3), {})
"""
LONGER = """
import torch

def told(x):
    return x + (1 if torch.compiler.is_compiling() else 0)

x = torch.ones(3)
made = torch.compile(told, backend="eager", fullgraph=True)
made(x)
x = x * 3
made(x)
print("three times", x)
"""
OF_SCRIPT = About(PROGRAM, WHOLE, None, {})


@contextmanager
def serving(folder: Path, text: str, rung: str, lines: tuple[PrintedLine, ...] = ()) -> Iterator[Worker]:
    """A worker whose probes are runs of the script, and what a run with compilation off left for it."""
    script = folder / "script.py"
    script.write_text(text)
    events = folder / "events.jsonl"
    told = PlainOptions(
        folder=str(folder), values=str(folder), events=str(events), root=str(ROOT.parent), mode=Mode.EAGER,
        seed=0,
    )
    options = json.dumps(wire.dump(told))
    command = [sys.executable, str(WATCHED), options, str(script)]
    done = processes.run(command, 120.0, environment={**os.environ, **OFF})
    assert done.status == 0, done.err
    (folder / KEPT).write_text(json.dumps(wire.dump(read_run(events, done))))
    program = ProgramOptions(str(script), str(folder), 0, rung, lines=lines)
    with working(script, text, program=program) as worker:
        yield worker


def measured(worker: Worker, candidate: Candidate) -> Measurement:
    [found] = answers(worker, RunProbe(OF_SCRIPT, candidate))
    assert isinstance(found, Measurement), found
    return found


@contextmanager
def probing(folder: Path, text: str, rung: str, lines: tuple[PrintedLine, ...] = ()) -> Iterator[Probe]:
    with serving(folder, text, rung, lines) as worker:

        def probe(*members: str, base: Base = Base.DEFAULT) -> Measurement:
            return measured(worker, Candidate(base, frozenset(members)))

        yield probe


def test_without_some_statements_the_script_is_measured_against_its_own_run_in_eager(
    tmp_path: Path,
) -> None:
    line = {text: number for number, text in enumerate(LONGER.splitlines(), 1)}
    first_call = LONGER.splitlines().index("made(x)") + 1
    shorter = WHOLE.with_left_out(first_call, line['print("three times", x)'])
    emptied = WHOLE.with_left_out(line["x = torch.ones(3)"])
    frame = f"frame:told@script.py:{line['def told(x):']}"
    with serving(tmp_path, LONGER, "eager") as worker:
        default, denied, broken = answers(
            worker,
            RunProbe(About(PROGRAM, shorter, None, {}), Candidate()),
            RunProbe(About(PROGRAM, shorter, None, {}), Candidate.deny([frame])),
            RunProbe(About(PROGRAM, emptied, None, {}), Candidate()),
        )
    values = [output for output in default.outputs if output.path.endswith("output[0]")]
    assert [(value.path, value.n_diff, value.scale) for value in values] == [("call[0].output[0]", 3, 3.0)]
    assert not any(output.n_diff for output in denied.outputs)
    assert not broken.outputs


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Probe]:
    with probing(tmp_path_factory.mktemp("traced"), TRACED, "eager", lines=(PrintedLine(0),)) as probe:
        yield probe


@pytest.fixture(scope="module")
def of_many_kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Probe]:
    with probing(tmp_path_factory.mktemp("kinds"), OF_MANY_KINDS, "inductor") as probe:
        yield probe


@pytest.fixture(scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Probe]:
    with probing(tmp_path_factory.mktemp("cached"), CACHED, "inductor") as probe:
        yield probe


def differ(measurement: Measurement) -> set[str]:
    return {o.path for o in measurement.outputs if o.n_diff or o.alias_mismatch or o.raised}


def ids(measurement: Measurement) -> list[str]:
    return [decision.id for decision in measurement.decisions]


INNER, OUTER = "frame:inner@script.py:8", "frame:outer@script.py:11"
REUSED = "guard:scaled@call5"
ALL = {"line[0]", "call[1].output[0]", "call[4].output[0]"}


def test_compiled_code_that_runs_again_on_a_changed_value_is_compiled_anew(traced: Probe) -> None:
    default = traced()
    assert [i for i in ids(default) if i.startswith("guard:")] == ["guard:scaled@call4", REUSED]
    assert differ(default) == ALL
    [reused] = [d for d in default.decisions if d.id == REUSED]
    assert "call 5, of `scaled`, runs code that an earlier call compiled; since call 3" in reused.text
    assert "`scale[0]` (1.0 -> 2.0)" in reused.text
    denied = traced(REUSED)
    assert differ(denied) == ALL - {"call[4].output[0]"} and not denied.vanished
    assert differ(traced("guard:scaled@call4")) == ALL


def test_the_change_that_no_guard_sees_is_told_from_others_by_undoing_each(tmp_path: Path) -> None:
    with serving(tmp_path, CHANGING, "eager") as worker:
        [found] = answers(worker, ExplainReuse(OF_SCRIPT, (2, 4, 6), Criterion()))
    entry, two, unseen = found.calls
    assert (entry.entry, entry.call, entry.since) == ("by_entry", 2, 1)
    assert entry.reasons == ((Changed("`rates['slow']`", "0.5", "2.0"),),)
    assert {"`rates['fast']`", "`seen`"} <= set(entry.others) and entry.let is Let.GUARDS
    [both] = two.reasons
    assert {change.name for change in both} == {"`gain`", "`bias`"}
    assert not unseen.reasons and unseen.unknown == NOT_BY_CHANGES


def test_a_change_that_disturbs_something_else_is_no_reason(tmp_path: Path) -> None:
    with serving(tmp_path, BESIDE, "eager") as worker:
        [found] = answers(worker, ExplainReuse(OF_SCRIPT, (2, 4, 6), Criterion()))
    scaled, rated, cast = found.calls
    # To undo what fills `weight` would give the value of the second output at the first call.
    assert scaled.reasons == ((Changed("`gain`", "1.0", "1.5"),),)
    assert rated.reasons == ((Changed("`config.rate`", "absent", "3.0"),),)  # of a class without methods
    assert cast.reasons == ((Changed("autocast on cpu", "off", "bfloat16"),),)
    assert "grad mode" in cast.others


@pytest.mark.live
def test_what_the_key_of_the_cache_does_not_hold_is_told(tmp_path: Path) -> None:
    with serving(tmp_path, KEYED, "inductor") as worker:
        [found] = answers(worker, ExplainReuse(OF_SCRIPT, (2,), Criterion()))
    [reuse] = found.calls
    assert (reuse.entry, reuse.call, reuse.since, reuse.let) == ("scaled", 2, 1, Let.CACHE)
    assert reuse.reasons == ((Changed("`slope`", "0.5", "3.0"),),)


def test_of_the_plain_baseline_each_call_is_compiled_and_one_alone_may_run_again(traced: Probe) -> None:
    assert "call[4].output[0]" not in differ(traced(base=Base.PLAIN))
    assert "call[4].output[0]" in differ(traced(REUSED, base=Base.PLAIN))


def test_a_function_that_dynamo_traces_is_left_to_python(traced: Probe) -> None:
    assert {INNER, OUTER} < set(ids(traced()))
    # Although the script asks for one graph.
    assert differ(traced(INNER)) == ALL - {"call[1].output[0]"}
    without_outer = traced(OUTER)
    assert differ(without_outer) == ALL - {"call[1].output[0]"}
    assert INNER not in ids(without_outer)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="an instruction has no column")
def test_a_step_of_a_traced_function_is_listed_and_left_to_python(tmp_path: Path) -> None:
    with serving(tmp_path, STEPS, "eager") as worker:
        [listed] = answers(worker, ListSteps(OF_SCRIPT))
        becomes = {step.code: step.becomes for step in listed.steps}
        every = frozenset(step.id for step in listed.steps)
        asks = "step:helper@script.py:10:21-50"
        assert asks in every and becomes["torch.compiler.is_compiling()"] == "the constant True"
        assert becomes["torch.sin(x)"] == "torch.sin in the graph"
        assert becomes['table["a"].sum( -1 )'] == "sum in the graph"
        assert becomes["meter.total = x.shape[0]"] == becomes['table["a"] = x * 2'] == ""
        within = {step.code: str(step.within) for step in listed.steps}
        assert within["torch.compiler.is_compiling()"] == "step:outer@script.py:16:11-31"
        assert within["doubled = x.mul(2)"] == "None"
        assert becomes["doubled = x.mul(2)"] == "mul in the graph"
        default = measured(worker, Candidate())
        assert differ(default) == {"call[0].output[0]"}
        assert not any(one.startswith("step:") for one in ids(default))
        denied = measured(worker, Candidate(Base.DEFAULT, frozenset({asks})))
        assert not differ(denied) and not denied.vanished
        # Each can be left to Python, in the function that is traced and in one that it calls.
        everything = measured(worker, Candidate(Base.DEFAULT, every))
        assert not differ(everything)
        others = measured(worker, Candidate(Base.DEFAULT, every - {asks}))
        assert differ(others) == {"call[0].output[0]"}


def test_printed_lines_that_count_are_measured(traced: Probe) -> None:
    denied = traced("frame:told@script.py:4")
    assert differ(denied) == ALL - {"line[0]"}


@pytest.mark.live
def test_a_graph_that_comes_from_the_cache_is_compiled_instead(cached: Probe) -> None:
    traces, graphs = "g2/cache:autograd_cache@graph", "g2/cache:fx_graph_cache@graph"
    default = ids(cached())
    assert traces in default and not any(i.startswith(("g2/lower:", "g2/inline:")) for i in default)
    denied = ids(cached(traces))
    assert {traces, graphs} < set(denied)  # what is traced anew is found in the other cache
    assert not any(i.startswith(("g2/lower:", "g2/inline:")) for i in denied)
    anew = ids(cached(traces, graphs))
    assert any(i.startswith(("g2/lower:", "g2/inline:")) for i in anew)


@pytest.mark.live
def test_a_decision_in_the_second_graph_is_denied_by_its_name_whatever_its_kind(of_many_kinds: Probe) -> None:
    of_kind = {i.kind: i for i in ids(of_many_kinds()) if i.startswith("g2/")}
    assert {"decomp", "fuse", "pass", "lower", "vec", "inline"} <= set(of_kind)
    # A denied decision that the compile does not meet again is reported as vanished.
    assert {kind: of_many_kinds(i).vanished for kind, i in of_kind.items()} == dict.fromkeys(of_kind, ())


@pytest.mark.live
def test_an_argument_of_torch_compile_is_a_flag_of_the_script(tmp_path: Path) -> None:
    with serving(tmp_path, DYNAMIC, "eager") as worker:
        assert differ(measured(worker, Candidate())), "a number drawn by Python is a constant of the graph"
        static = measured(worker, Candidate.with_flags({"compile.dynamic": False}))
        assert static.error is None and not differ(static)


@pytest.mark.live
def test_settings_that_no_compile_of_the_script_reads_are_told(tmp_path: Path) -> None:
    read, unread = "dynamo.skip_nnmodule_hook_guards", "inductor.max_fusion_size"  # Inductor is not asked
    script = "import torch\ntorch.compile(torch.nn.Linear(2, 2), backend='eager')(torch.ones(2))\n"
    with serving(tmp_path, script, "eager") as worker:
        [found] = answers(worker, DigestCode(OF_SCRIPT, Candidate(), (read, unread, "compile.dynamic")))
    assert found.digest is None and found.unread == {unread}
