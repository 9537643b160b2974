"""Runs a repro in the interpreter of a build and says in one line of JSON what it gave.

    python driver.py REPRO.py [--fixed]

This file is a program for another interpreter than numbisect's: the standard library alone, and nothing that
an older Python lacks. What the repro prints goes to stderr, so that the line is all of stdout. Settings of
torch's config modules, in the variable NUMBISECT_SETTINGS as JSON, are set before it begins. status is the
repro's own (0 agrees, 1 diverges, 125 cannot tell), whatever else it ended with included. A script that is no
repro of numbisect's says by an assertion of its own that it diverges.
"""

import ast
import ctypes
import hashlib
import importlib
import json
import os
import sys
import traceback


def main(path, *arguments):
    line, sys.stdout = sys.stdout, sys.stderr
    names = {"__name__": "__main__", "__file__": path}
    sys.argv = [path, *arguments]
    status, error = 0, None
    try:
        for name, value in json.loads(os.environ.get("NUMBISECT_SETTINGS", "{}")).items():
            family, _, key = name.partition(".")
            setattr(importlib.import_module(f"torch._{family}.config"), key, value)
        with open(path, "rb") as source:
            tree = ast.parse(source.read(), path)
        exec(compile(_with_values(tree), path, "exec"), names)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except AssertionError as raised:
        traceback.print_exc()
        status, error = _judged(raised, path)
    except BaseException as raised:  # noqa: BLE001 - whatever it is, it is no divergence
        traceback.print_exc()
        status, error = 125, "{}: {}".format(type(raised).__name__, str(raised).split("\n")[0])
    result = {"status": status, "error": error}
    result.update(_torch_origin())
    result.update(_digests(names))
    line.write(json.dumps(result) + "\n")
    line.flush()


def _with_values(tree):
    """The test of a repro, which keeps what eager and compiled gave as names of the file."""
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and function.name.endswith("_agrees_with_eager"):
            function.body.insert(0, ast.Global(names=["expected", "actual"]))
    return ast.fix_missing_locations(tree)


def _judged(raised, path):
    """A script's own assert, or its assert_close, is how a bug report says that the results differ; one that
    fails inside PyTorch is a crash."""
    frame = raised.__traceback__
    while frame.tb_next is not None:
        frame = frame.tb_next
    where = frame.tb_frame.f_code.co_filename
    if where == path or "/torch/testing/" in where.replace("\\", "/"):
        return 1, None
    return 125, "AssertionError in {}: {}".format(where, str(raised).split("\n")[0])


def _torch_origin():
    """Where torch comes from, and where its compiler does: a wrong path would test another build."""
    torch = sys.modules.get("torch")
    version = getattr(torch, "version", None)
    number = getattr(torch, "__version__", None)
    return {
        "torch": None if number is None else str(number),
        "git": getattr(version, "git_version", None),
        "file": getattr(torch, "__file__", None),
        "inductor": getattr(sys.modules.get("torch._inductor"), "__file__", None),
    }


def _digests(names):
    """Of what the repro calls so: the inputs, what eager gave and what compiled did."""
    inputs = names.get("inputs")
    given = {"eager": names.get("expected"), "compiled": names.get("actual")}
    try:
        given["inputs"] = inputs() if callable(inputs) else None
    except Exception:  # noqa: BLE001 - the status stands without it
        given["inputs"] = None
    return {name: None if value is None else _digest(value) for name, value in given.items()}


def _digest(value):
    whole = hashlib.sha1()
    for leaf in _leaves(value):
        whole.update(leaf)
    return whole.hexdigest()[:16]


def _leaves(value):
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            yield str(key).encode()
            yield from _leaves(value[key])
    elif hasattr(value, "data_ptr"):
        plain = value.detach().cpu().contiguous()
        yield f"{plain.dtype} {tuple(plain.shape)} ".encode()
        yield ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size())
    else:
        yield repr(value).encode()


if __name__ == "__main__":
    main(*sys.argv[1:])
