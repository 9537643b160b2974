"""One program for a kind, in which one decision of that kind is the cause: the search finds it and no other.

Most diverge by themselves: another rounding, another order of a sum, a NaN times zero. Memory that is taken
twice, and a gradient that is computed again, change no value unless the compiler is wrong, and whether a
template or a packed weight gives other bits than the library hangs on the processor; there the script plants
a fault that comes with the decision and goes with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bisector.core.case import WHOLE
from bisector.core.criterion import Criterion
from bisector.core.decision import DecisionId
from bisector.core.messages import LoadOptions, WorkerOptions
from bisector.core.model import Candidate
from bisector.core.outcome import Outcome
from bisector.explain.culprit_search import decide
from bisector.explain.search_order import finest
from bisector.explain.study import Study
from bisector.runner.journal import Journal
from bisector.runner.lab import Lab

pytestmark = pytest.mark.usefixtures("warm_workers")

SCRIPT = '''
import torch
import torch._inductor.config as config
import torch.nn.functional as F
from torch._inductor import compile_fx
from torch._inductor.codegen import cpp, wrapper

define, reuse = cpp.CppScheduling.define_kernel, wrapper.ReuseLine.codegen
partition = compile_fx.min_cut_rematerialization_partition
leave = wrapper.PythonWrapperCodegen.generate_return


def define_kernel(self, source, *args, **kwargs):  # of an arctangent in place, or of a template, one is wrong
    wrong = "in_out_ptr0" if "in_out_ptr0" in source and "atan" in source else "Y"
    if wrong != "Y" or "_micro_gemm(" in source:
        source = source.rstrip().removesuffix("}") + f"    {wrong}[0] += 1;\\n}}\\n"
    return define(self, source, *args, **kwargs)


def packed(x, packed, weight, bias, batch):  # a product with a packed weight is too large
    return F.linear(x, weight, bias) * 1.001


library = torch.library.Library("mkl", "IMPL")
library.impl("_mkl_linear", packed, "MkldnnCPU", allow_override=True)


def codegen(self, code):
    self.wrapper.taken = [*getattr(self.wrapper, "taken", []), self.reused_as.get_name()]
    return reuse(self, code)


def generate_return(self, output_refs):  # of two outputs the one in the memory of another value is wrong
    for name in getattr(self, "taken", []):
        if name in output_refs and len(output_refs) == 2:
            self.wrapper_call.writeline(f"{name}.add_(1)")
    return leave(self, output_refs)


def partition_wrongly(*args, **kwargs):  # a sigmoid that is computed again is a tanh
    forward, backward = partition(*args, **kwargs)
    for node in backward.graph.find_nodes(op="call_function", target=torch.ops.aten.sigmoid.default):
        node.target = torch.ops.aten.tanh.default
    backward.recompile()
    return forward, backward


cpp.CppScheduling.define_kernel = define_kernel
wrapper.ReuseLine.codegen = codegen
wrapper.PythonWrapperCodegen.generate_return = generate_return
compile_fx.min_cut_rematerialization_partition = partition_wrongly


def const(x):
    return (x + 1.7) * 1


def cfold(x):
    return x.abs() * 0


def unroll(x):
    return x.sum(-1)


def welford(x):
    return x.var(-1)


def inplace(x, w):
    return torch.mm(torch.mm(torch.relu(torch.mm(x, w)), w).atan(), w)


def reuse_(x, w):
    second = torch.mm(x, w)
    third = torch.mm(second, x)
    first = torch.mm(w, x)
    return torch.mm(third, first), first


def remat(x):
    gate = x.sigmoid()
    return (gate * (gate + 1).tanh()).cos()


def template(x, w):
    return torch.bmm(x, w)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(64, 33))

    def forward(self, x):
        return F.linear(x, self.weight)


def compiled(fn, *inputs):
    return torch.compile(fn, dynamic=False)(*inputs)


torch.manual_seed(0)
layer, x, w = Layer(), torch.randn(16, 16), torch.randn(16, 16)
compiled(const, torch.randn(64).half())
compiled(cfold, torch.tensor([1.0, float("nan")]))
compiled(unroll, torch.full((16, 4), -0.0))
halves = torch.randint(1, 100, (4, 2048))  # a sum of these is exact in any order, a running mean is not
compiled(welford, torch.cat([halves, -halves], 1).float()[:, torch.randperm(4096)])
compiled(inplace, x, w)
compiled(reuse_, x, w)
compiled(remat, torch.randn(16, 16, requires_grad=True)).sum().backward()
with torch.no_grad(), config.patch(freezing=True):
    compiled(layer, torch.randn(7, 33))
with config.patch({"max_autotune_gemm": True, "max_autotune_gemm_backends": "CPP"}):
    compiled(template, torch.randn(4, 32, 256), torch.randn(4, 256, 64))
'''

BITS = Criterion(everywhere=(0.0, 0.0))


@dataclass(frozen=True)
class Known:
    """call: which compiled call of the script; only: the decision that is cause and repair."""

    call: int
    only: str
    criterion: Criterion = BITS


EACH = [
    Known(1, "cfold:aten.mul@mul"),
    Known(3, "welford:aten.var@var"),
    Known(5, "reuse:second@first", Criterion()),
    Known(7, "prepack:linear/mm@linear"),
    Known(8, "template:aten.bmm@bmm"),
    Known(0, "const:float16@add"),
    Known(2, "unroll:aten.sum@sum_1", Criterion(everywhere=(0.0, 0.0), signed_zero=True)),
    Known(4, "inplace:aten.atan@atan", Criterion()),
    Known(6, "remat:aten.sigmoid@gate", Criterion()),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One worker that has loaded the script, for all searches."""
    folder: Path = tmp_path_factory.mktemp("kinds")
    script = folder / "case.py"
    script.write_text(SCRIPT, encoding="utf-8")
    load = LoadOptions(str(script))
    journal = Journal(folder / "journal.jsonl")

    def ignore(*_: Any) -> None:
        return None

    made = Lab(WorkerOptions(load, log=str(folder / "log")), journal, 2, 120.0, ignore)
    yield made
    made.close()
    journal.close()


@pytest.mark.live
@pytest.mark.parametrize(
    "known", EACH, ids=lambda known: DecisionId(known.only).kind
)
def test_one_decision_of_the_kind_is_the_cause_and_the_repair(lab: Lab, known: Known) -> None:
    study = Study(lab, known.call, known.criterion, known.criterion)
    default = study.probe(Candidate())
    assert default.outcome is Outcome.FAIL, default.reason
    assert known.only in {d.id for d in default.measurement.decisions}
    found = decide(study, WHOLE, default, [])
    assert found.checks == ()
    assert [c.members for c in found.sets.causes if c.confirmed] == [(known.only,)]
    assert [r.members for r in finest(found.sets.repairs) if r.confirmed] == [(known.only,)]
