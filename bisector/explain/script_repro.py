"""The text of a repro that is the script itself: in one file, run twice by its test, with compilation and
without, and compared call by call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from bisector.core.case import Case
from bisector.core.criterion import DTYPE_TOLERANCES, Criterion
from bisector.core.fix import CompileAnew, LeaveToPython, PlainFix
from bisector.core.fix_source import Statements, compile_arguments, python_literal, statements
from bisector.core.printed import AS_WRITTEN, NOTHING, NUMBER, PRINTED_ALIKE, PrintedLine
from bisector.core.protocol import ScriptSpec
from bisector.core.repro_file import (
    CANNOT_TELL,
    DIFFERS,
    comment,
    run_by_python,
    usage,
)
from bisector.core.script_text import shortened

from ..subject.targets import source_of

COMPARED = "compiled differs from eager"  # first line of what it prints where they do
TEST = "test_compiled_agrees_with_eager"
_TEMPLATE = Template('''\
$header
import functools
import os
import subprocess
import sys
import tempfile
import types

ENVIRONMENT = $environment  # what the script must find before torch is imported
SCRIPT = $script
$constants

def run_script(file, fixed):
    """Run the script; keep what its compiled functions return, and what becomes of their arguments."""
    import torch
$imports
    torch.manual_seed($seed)
    compile_, values, leaves = torch.compile, [], torch.utils._pytree.tree_leaves

    def watched(model=None, **options):
        if model is None:
            return functools.partial(watched, **options)
        made = compile_(model, **$options)
        if made is model and isinstance(model, torch.nn.Module):  # compilation is off
            made = torch.compiler.disable(model)
        target = made.forward if isinstance(made, torch.nn.Module) else made
        owner = model if isinstance(model, torch.nn.Module) else getattr(model, "__self__", None)

        @functools.wraps(target)
        def call(*args, **kwargs):
            keep()
            fix()
            $anew
            try:
                $called
            except Exception as error:
                values.append(f"{type(error).__name__}: {error}")
                raise
            values.append([t.detach().clone() for t in with_tangents(as_tensors(leaves(result)))])
            is_module = isinstance(owner, torch.nn.Module)
            held = [*owner.parameters(), *owner.buffers()] if is_module else []
            if isinstance(owner, torch.optim.Optimizer):
                held = [p for group in owner.param_groups for p in group["params"]]
            pending.extend([*(t for t in leaves((args, kwargs)) if isinstance(t, torch.Tensor)), *held])
            return result

        if made is target:
            return call
        made.forward = call
        return made

    def as_tensors(found):
        for t in found:
            kind = getattr(getattr(t, "dtype", None), "kind", "")  # of an array of NumPy's
            number = isinstance(t, (float, complex)) or isinstance(t, int) and abs(t) < 2**63
            if isinstance(t, torch.Tensor) or number or kind in ("b", "i", "u", "f", "c"):
                yield torch.as_tensor(t)

    def with_tangents(found):
        pairs = [torch.autograd.forward_ad.unpack_dual(t) for t in found]
        return [t for pair in pairs for t in pair if t is not None]

    pending, gradients, backward_ = [], [], torch.autograd.backward

    def keep():  # arguments, parameters and buffers as the next call finds them, gradients as they were made
        found = [t for t in pending if t.is_leaf]
        made = gradients or [t.grad for t in found]
        values.append([t.detach().clone() for t in (*found, *made) if t is not None])
        pending.clear()
        gradients.clear()

    def backward(*args, **kwargs):
        backward_(*args, **kwargs)
        made = [t.grad for t in pending if t.is_leaf]
        gradients[:] = [t.detach().clone() for t in made if t is not None]

    @functools.cache
    def fix():  # as late as can be: the script may register lowerings of its own
        if fixed:
            try:
                $fix
            except Exception as error:  # ended here: the script might catch it and go on without the fix
                sys.stderr.write(f"the fix: {type(error).__name__}: {error}\\n")
                end(125)

$only    end, torch.compile, os._exit = os._exit, watched, sys.exit
    torch.autograd.backward = backward
    # Where pickle looks for what it defines: torch keeps in its caches what can be found again, alone.
    main_module = sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        exec(compile($source, "script.py", "exec"), vars(main_module))
    finally:
        keep()
        torch.save(values, file)


def run(folder, name, off):
    file = os.path.join(folder, name)
    environment = os.environ | ENVIRONMENT
    environment["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "cache")  # nothing of an earlier run
    if off:
        environment.update(TORCH_COMPILE_DISABLE="1", TORCHDYNAMO_DISABLE="1")
    fixed = [argument for argument in sys.argv if argument == "--fixed"]
    command = [sys.executable, os.path.abspath(__file__), *fixed, "--run", file]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if not os.path.exists(file):
        sys.exit(print("cannot tell:", (done.stderr.strip() or "no values").splitlines()[-1]) or 125)
    import torch

    return done, torch.load(file)


$differs
def $test():
    with tempfile.TemporaryDirectory() as folder:
        (eager, expected), (compiled, actual) = run(folder, "off.pt", True), run(folder, "on.pt", False)
    import torch

    try:
        for call, (e, a) in enumerate(zip(expected, actual)):
            if isinstance(e, str) or isinstance(a, str):
                said = [side if isinstance(side, str) else "returns" for side in (e, a)]
                assert isinstance(e, str) and isinstance(a, str), f"eager {said[0]}, compiled {said[1]}"
                continue
            message = lambda m: f"at step {call}: {m}"
            $compare
$printed        ended = f"exit status {compiled.returncode}, not {eager.returncode}\\n{compiled.stderr}"
        assert eager.returncode == compiled.returncode, ended
    except AssertionError as error:
        raise Differs(f"$compared\\n{error}") from None
    if len(expected) != len(actual):
        print(f"cannot tell: {len(actual) // 2} calls compiled, and {len(expected) // 2} in eager")
        sys.exit(125)
    print("compiled agrees with eager")


$end
''')

_ALL = "result = target(*args, **kwargs)"
_SOME = """compiled = len(values) // 2 in CALLS  # two entries a call
                with torch.compiler.set_stance("default" if compiled else "force_eager"):
                    result = target(*args, **kwargs)"""
_ANEW = """if fixed and len(values) // 2 + 1 in ANEW:  # two entries a call
                torch._dynamo.reset()"""
_SAME_LINE = rf"""


def same_line(one, two, moving, exactly):
    import math
    import re

    number = r"{NUMBER.pattern}"
    if "".join(re.sub(number, "#", one).split()) != "".join(re.sub(number, "#", two).split()):
        return False

    def near(x, y):  # floats alone: whole numbers, times and addresses are one or they are not
        as_written = any(re.match(r"{AS_WRITTEN}", n) for n in (x, y))
        exact = exactly or as_written or all(re.fullmatch(r"[-+]?\d+", n) for n in (x, y))
        if exact or math.isnan(float(x)) or math.isnan(float(y)):
            return False
        return math.isclose(float(x), float(y), rel_tol={PRINTED_ALIKE}, abs_tol={NOTHING})

    pairs = enumerate(zip(re.findall(number, one), re.findall(number, two)))
    return all(x == y or i in moving or near(x, y) for i, (x, y) in pairs)
"""
_PRINTED = """\
        printed = [side.stdout.splitlines() for side in (eager, compiled)]
        for line, moving in LINES.items():
            e, a = ("".join(side[line : line + 1]) for side in printed)
            same = same_line(e, a, moving, line in EXACTLY)
            assert same, f"printed line {line + 1}: `{a}`, with compilation off `{e}`"
"""
_DECORATED = """

def decorated():
    lines = SCRIPT.split("\\n")
    for number in sorted(DISABLED, reverse=True):
        indent = lines[number - 1][: -len(lines[number - 1].lstrip())]
        lines.insert(number - 1, f"{indent}@__import__('torch').compiler.disable")
    return "\\n".join(lines)
"""
_ONLY = """\
    from torch._guards import CompileContext
    from torch._inductor import compile_fx as inductor

    compile_graph, known = inductor.compile_fx, []

    def some_graphs(gm, *args, **kwargs):
        compiling = CompileContext.current_compile_id()
        if not any(compiling is other for other in known):
            known.append(compiling)
        number = next(n for n, other in enumerate(known, 1) if other is compiling)
        return compile_graph(gm, *args, **kwargs) if number in GRAPHS else gm

    inductor.compile_fx = some_graphs
"""


@dataclass(frozen=True)
class Source:
    """The script that a repro runs.

    path: its file. environment: what it must find before torch is imported. seed: where it sets none.
    lines: the printed ones that must agree, besides its values.
    """

    path: str
    environment: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    lines: tuple[PrintedLine, ...] = ()


def text(script: Source, case: Case, spec: ScriptSpec) -> str:
    """case: what is compiled of the script."""
    source, fix = source_of(Path(script.path)), spec.fix
    source, places = shortened(source, case.left_out) if case.left_out else (source, {})
    printed = () if case.left_out else script.lines  # what is left prints other lines
    done = Statements() if fix is None else statements(fix)
    arguments = compile_arguments(fix)
    elsewhere = "pass  # it stands elsewhere in this file"
    nowhere = 'raise NotImplementedError("no fix is known")'
    lines = [*done.early, *done.lines] or [elsewhere if arguments else nowhere]
    options = f"(options | ({arguments} if fixed else {{}}))" if arguments else "options"
    run_it = 'if "--run" in sys.argv:\n    sys.exit(run_script(sys.argv[-1], "--fixed" in sys.argv))'
    return _TEMPLATE.substitute(
        header=f"{comment(spec.header)}\n{usage(fix is not None)}",
        environment=python_literal(dict(script.environment)),
        script=_literal(source),
        imports="".join(f"    {line}\n" for line in sorted(done.imports)),
        fix="\n                ".join(lines),
        options=options,
        differs=DIFFERS + "\n",
        test=TEST,
        compared=COMPARED,
        end=run_by_python(TEST, [run_it, *CANNOT_TELL]),
        seed=script.seed,
        printed=_PRINTED if printed else "",
        compare=_comparison(spec.criterion),
        constants=_constants(case, printed) + _edits(fix, places),
        called=_SOME if case.calls else _ALL,
        only=_ONLY if case.graphs else "",
        anew=_ANEW if isinstance(fix, CompileAnew) else "",
        source="decorated() if fixed else SCRIPT" if isinstance(fix, LeaveToPython) else "SCRIPT",
    )


def _constants(case: Case, printed: tuple[PrintedLine, ...]) -> str:
    lines = []
    if case.graphs:
        numbers = ", ".join(map(str, case.graphs))
        lines.append(f"GRAPHS = {{{numbers}}}  # that Inductor compiles, in its order, from 1")
    if case.calls:
        numbers = ", ".join(map(str, case.calls))
        lines.append(f"CALLS = {{{numbers}}}  # that run compiled, in their order, from 0")
    if printed:
        whole = [line for line in printed if not line.words and line.edges is None]
        numbers = ", ".join(f"{line.number}: {list(line.moving)}" for line in whole)
        comment = "of what it prints, from 0, that must agree, but for numbers that move"
        lines.append(f"LINES = {{{numbers}}}  # {comment}")
        exactly = ", ".join(str(line.number) for line in whole if line.exactly)
        lines.append(f"EXACTLY = ({exactly}{',' if exactly else ''})  # to the last digit{_SAME_LINE}")
    return "".join(f"{line}\n" for line in lines)


def _edits(fix: PlainFix | None, places: Mapping[int, int]) -> str:
    """Where the script is changed by a fix, as constants and a function. places: the lines that those of the
    whole script have here, where some are left out."""
    if isinstance(fix, LeaveToPython):
        kept = [(line, name) for name, line in fix.lines.items() if not places or line in places]
        entries = ", ".join(f"{places.get(line, line)}: {python_literal(name)}" for line, name in kept)
        comment = "lines of functions of the script that --fixed leaves to Python"
        return f"DISABLED = {{{entries}}}  # {comment}\n{_DECORATED}"
    if isinstance(fix, CompileAnew):
        entries = ", ".join(map(str, fix.calls))
        return f"ANEW = {{{entries}}}  # calls, from 1, before which --fixed forgets what is compiled\n"
    return ""


def _comparison(criterion: Criterion) -> str:
    """Lines that raise AssertionError where two lists of tensors, `a` and `e`, do not agree."""
    if lines := criterion.assertion().splitlines():
        return f"\n{' ' * 12}".join(["for a, e in zip(a, e):", *(f"    {line}" for line in lines)])
    rtol, atol = criterion.tolerance("*", "float32")
    default = (rtol, atol) == DTYPE_TOLERANCES["float32"]
    held = "" if default else f", rtol={rtol!r}, atol={atol!r}"
    return f"torch.testing.assert_close(a, e, equal_nan=True, msg=message{held})"


def _literal(source: str) -> str:
    """The script in raw quotes, where it can stand so."""
    for quotes in ('"""', "'''"):
        if quotes not in source and not source.endswith(("\\", quotes[0])):
            return f"r{quotes}{source}{quotes}"
    return repr(source)
