"""What the text of a script is guessed to say: what only looks at results, what nothing reads."""

from __future__ import annotations

from bisector.core.script_names import ScriptNames
from bisector.core.script_text import shortened

SCRIPT = '''\
import math
import torch


def model(x):
    seen = x.sum()
    return x * 2


def check(one, two):
    return math.isclose(one, two)


fast = torch.compile(model)
x = torch.ones(3)
plain = model(x)
compiled = fast(x)
print("plain", plain, "compiled", compiled)
if not check(plain.sum().item(), compiled.sum().item()):
    raise SystemExit(1)
for value in compiled:
    print(value)
'''


def left_of(script: str) -> str:
    names = ScriptNames(script)
    return shortened(script, names.cleaned(names.reports))[0]


def test_what_only_looks_at_results_is_left_out_with_what_serves_it_alone() -> None:
    assert left_of(SCRIPT) == '''\
import torch


def model(x):
    return x * 2


fast = torch.compile(model)
x = torch.ones(3)
compiled = fast(x)
'''


def test_a_report_that_calls_something_compiled_stays() -> None:
    script = "import torch\nfast = torch.compile(abs)\nprint(fast(torch.ones(1)))\n"
    assert left_of(script) == script


def test_a_result_of_something_compiled_may_be_printed_without_running_it() -> None:
    script = "import torch\nout = torch.compile(abs)(torch.ones(1))\nprint(out.tolist())\n"
    assert "print" not in left_of(script)


def test_what_calls_something_compiled_is_known_through_functions_and_decorators() -> None:
    script = (
        "import torch\n@torch.compile\ndef fast(x):\n    return x\n"
        "def run():\n    return fast(torch.ones(1))\nassert run() > 0\n"
    )
    assert left_of(script) == script


def test_a_method_is_not_dead_for_being_read_as_an_attribute() -> None:
    script = "class Held:\n    def value(self):\n        return 1\n\n\nheld = Held()\nheld.value()\n"
    assert left_of(script) == script


def test_a_name_that_would_no_longer_be_bound_is_seen() -> None:
    names = ScriptNames("x = 1\ny = 2\nz = x + len([y])\nabs(z)\n")
    assert not names.binds_as_before(frozenset({1}))
    assert names.binds_as_before(frozenset({4}))


def test_a_nonlocal_name_needs_its_binding() -> None:
    inner = "    def g():\n        nonlocal n\n        n += 1\n"
    names = ScriptNames(f"def f():\n    n = 0\n{inner}    return g\n")
    assert not names.binds_as_before(frozenset({2}))


def test_a_branch_whose_condition_calls_something_compiled_stays() -> None:
    script = "import torch\nfast = torch.compile(abs)\nx = torch.ones(1)\nif fast(x) > 2:\n    print(x)\n"
    assert "if fast(x) > 2:" in left_of(script)


def test_an_import_from_the_future_stays() -> None:
    assert left_of("from __future__ import annotations\nprint(1)\n").startswith("from __future__")
