"""Results as a run would leave them, one for each kind of answer. Every call gives a fresh dict."""

from __future__ import annotations

import copy
import json
from typing import Any

from bisector.core.fix import FallBack, SetFlags
from bisector.core.fix_source import paste_lines
from bisector.report.document import Document
from bisector.report.document_json import from_json

FAST = "inductor.cpp.enable_floating_point_contract_flag"
INLINE = "inline:aten.mul@mul"
FMA = "fma:sub@mul"
LAYOUT = "layout:channels_last@conv2d_2"
VEC = "vec:erf@erf_1"
SUM = "lower:aten.sum@total"

_EMPTY: dict[str, Any] = {
    "schema_version": 1,
    "target": "/home/ada/models/case.py",
    "run": "numbisect-out/case-1",
    "exit_status": 1,
    "environment": {
        "torch": "2.13.0+cpu",
        "torch_git": "0123456789abcdef0123456789abcdef01234567",
        "triton": None,
        "python": "3.11.9",
        "os": "Linux 6.1 x86_64",
        "cpu": "AMD EPYC 9V74",
        "isa": "avx512",
        "gpu": None,
        "cxx": "g++ 12.2.0",
        "numbisect": "0.1.0",
    },
    "verdict": {
        "class": "agrees",
        "reason": "",
        "rule": "measured",
        "figures": {},
        "proof": {
            "experiment": "measured",
            "compared": {
                "values": 1, "unequal": 0, "calls": 0, "comparisons": 0, "lines": 0, "ends": [], "unseen": [],
            },
            "reference": None,
        },
        "first_bad_backend": None,
        "outputs": [],
        "criterion": {"source": "", "tolerances": [], "signed_zero": False, "measure": None},
    },
    "origin": None,
    "amplifier": None,
    "graph": None,
    "repairs": [],
    "causes": [],
    "fixes": [],
    "flags": [],
    "contrast": None,
    "neighbour": None,
    "graded": [],
    "adds_up": None,
    "removed_together": None,
    "minimal": None,
    "builds": None,
    "repro": None,
    "repro_fix": None,
    "test": None,
    "report_html": None,
    "report_markdown": "report.md",
    "probes": {"total": 3, "pass": 3, "fail": 0, "unresolved": 0, "cached": 0},
    "seconds": {
        "total": 6.4,
        "capture": 3.1,
        "localise": None,
        "causes": None,
        "fixes": None,
        "minimize": None,
        "builds": None,
        "cpu": 5.5,
    },
    "stopped_because": None,
    "seed": None,
    "settings": {},
    "hooks_off": {},
    "not_here": {},
    "places": [],
    "text_notes": [],
    "decisions": {},
    "others": [],
}  # fmt: skip


def output(**values: Any) -> dict[str, Any]:
    """One entry of `verdict.outputs`, equal bit for bit unless told otherwise."""
    entry: dict[str, Any] = {
        "index": 0,
        "path": "out",
        "dtype": "float32",
        "shape": [64],
        "n_diff": 0,
        "numel": 64,
        "max_abs": 0.0,
        "max_rel": 0.0,
        "max_ulp": 0,
        "nonfinite_mismatches": 0,
        "rms_error_eager": 0.0,
        "rms_error_compiled": 0.0,
    }
    return entry | values


def node(name: str, reads: str, **values: Any) -> dict[str, Any]:
    """One entry of the graph, equal in both runs unless told otherwise. reads: names, separated by blanks."""
    entry: dict[str, Any] = {
        "name": name,
        "op": f"aten.{name.partition('_')[0]}",
        "where": "/home/ada/models/softmax.py:11",
        "module": "",
        "reads": reads.split(),
        "shape": [64],
        "dtype": "float32",
        "gradient": False,
        "seen": True,
        "ulp": 0.0,
        "carried_ulp": 0.0,
        "gain": None,
    }
    return entry | values


def agrees() -> dict[str, Any]:
    """No divergence."""
    result = copy.deepcopy(_EMPTY)
    result["verdict"]["outputs"] = [output()]
    return result


def softmax_pair() -> dict[str, Any]:
    """Two decisions needed together: one cause of two members, two repairs of one."""
    result = copy.deepcopy(_EMPTY)
    result |= {
        "target": "/home/ada/models/softmax.py",
        "run": "numbisect-out/softmax-1",
        "exit_status": 0,
        "verdict": result["verdict"]
        | {
            "class": "compiled-worse",
            "reason": "",
            "first_bad_backend": "inductor",
            "outputs": [
                output(
                    n_diff=64,
                    max_abs=912384.0,
                    max_rel="inf",
                    max_ulp=1231241216,
                    nonfinite_mismatches=1,
                    rms_error_eager=2.1e-8,
                    rms_error_compiled=114093.5,
                )
            ],
            "criterion": {
                "source": "defaults of torch.testing.assert_close",
                "tolerances": [[1.3e-06, 1e-05]],
                "signed_zero": False,
                "measure": None,
            },
        },
        "origin": {
            "node": "sub",
            "op": "aten.sub.Tensor",
            "file": "/home/ada/models/softmax.py",
            "line": 11,
            "local_error_ulp": 4.2,
        },
        "amplifier": {"node": "exp", "op": "aten.exp.default", "gain": 912384.0},
        "graph": {
            "nodes": [
                node("mul", "x", seen=False),
                node("amax", "mul"),
                node("sub", "mul amax", ulp=4.2, carried_ulp=4.0),
                node("exp", "sub", ulp=0.5, carried_ulp=912384.0, gain=912384.0),
            ],
            "outputs": {"output[0]": "exp"},
        },
        "repairs": [
            {"decisions": [FMA], "confirmed": True, "removed_fraction": 1.0},
            {"decisions": [INLINE], "confirmed": True, "removed_fraction": 1.0},
        ],
        "causes": [
            {
                "decisions": [INLINE, FMA],
                "confirmed": True,
                "evidence": {"alone": "FAIL", "without_each": ["PASS", "PASS"]},
            }
        ],
        "fixes": [
            {
                "id": f"{FAST}=off",
                "kind": "flag",
                "set": {FAST: "off"},
                "removed_fraction": 1.0,
                "residual_max_abs": 0.0,
                "slowdown": 1.02,
                "slowdown_spread": None,
                "other_inputs": None,
                "same_program": None,
                "confirmed": True,
                "paste": paste_lines(SetFlags({FAST: "off"}), {FAST: "fast"}),
            },
            {
                "id": "lower:aten.sub@sub",
                "kind": "lowering",
                "set": None,
                "removed_fraction": 1.0,
                "residual_max_abs": 0.0,
                "slowdown": 1.9,
                "slowdown_spread": None,
                "other_inputs": None,
                "same_program": None,
                "confirmed": True,
                "paste": paste_lines(FallBack(("aten.sub",))),
            },
            {
                "id": FMA,
                "kind": "decision",
                "set": None,
                "removed_fraction": 1.0,
                "residual_max_abs": 0.0,
                "slowdown": None,
                "slowdown_spread": None,
                "other_inputs": None,
                "same_program": None,
                "confirmed": True,
                "paste": [],
            },
        ],
        "flags": [
            flag(FAST, "off", "off", "PASS", 1.0, "fix"),
            flag("inductor.realize_opcount_threshold", 30, 1, "PASS", 1.0, "fix"),
            flag("inductor.cpp.simdlen", None, 1, "FAIL", 0.004, "no effect"),
            flag("inductor.emulate_precision_casts", False, True, "FAIL", 0.0, "no effect"),
            flag("inductor.pattern_matcher", True, False, "FAIL", 0.0, "no effect"),
            flag("inductor.cpp.enable_unsafe_math_opt_flag", False, True, "UNRESOLVED", None, "unresolved"),
        ],
        "minimal": {
            "ops": ["aten.mul.Tensor", "aten.amax.default", "aten.sub.Tensor", "aten.exp.default"],
            "n_ops": 4,
            "calls": ["mul", "top", "mul_1", "sub", "exp"],
            "inputs": [{"shape": [1, 2], "dtype": "float32"}, {"shape": [1], "dtype": "float32"}],
            "input_numel": 3,
            "lines": 38,
            "graph": (
                "def forward(self, x, scale):\n"
                "    # File: /home/ada/models/softmax.py:10 in shifted_exp_sum\n"
                "    mul = x * scale\n"
                "    top = mul.amax(-1, keepdim=True)\n"
                "    mul_1 = x * scale\n"
                "    sub = mul_1 - top\n"
                "    return torch.exp(sub)\n"
            ),
        },
        "repro": "repro.py",
        "repro_fix": "inductor.cpp.enable_floating_point_contract_flag=off",
        "probes": {"total": 61, "pass": 30, "fail": 29, "unresolved": 2, "cached": 4},
        "seconds": {
            "total": 74.2,
            "capture": 5.1,
            "localise": 9.7,
            "causes": 28.4,
            "fixes": 14.0,
            "minimize": 17.0,
            "builds": None,
            "cpu": 70.1,
        },
        "seed": 0,
        "entry": "shifted_exp_sum",
        "settings": {FAST: "fast"},
        "decisions": {
            INLINE: {
                "text": "the product `mul` is computed again inside the kernel of `exp`, not stored once",
                "where": "/home/ada/models/softmax.py:11",
            },
            FMA: {
                "text": "the product `mul` and the subtraction `sub` become one multiply-add: "
                "the product is not rounded",
                "where": "/home/ada/models/softmax.py:11",
            },
        },
        "confirmation": {
            "process": "fresh process, graph caches off",
            "default": "FAIL",
            "repairs": ["PASS", "PASS"],
        },
    }
    return result


def flag(
    name: str, default: Any, tried: Any, outcome: str, removed: Any, role: str, env: str | None = None
) -> dict[str, Any]:
    """One entry of `flags`."""
    return {
        "name": name,
        "default": default,
        "tried": tried,
        "outcome": outcome,
        "removed_fraction": removed,
        "role": role,
        "told_by": "run",
        "env": env,
        "grown": None if removed is None else 1.0 - removed,
    }


def two_causes() -> dict[str, Any]:
    """Two independent causes: two causes of one member, one repair of two; no single fix."""
    result = copy.deepcopy(_EMPTY)
    result |= {
        "target": "encoder.py",
        "run": "numbisect-out/encoder-1",
        "exit_status": 0,
        "verdict": result["verdict"]
        | {
            "class": "amplified-rounding",
            "reason": "",
            "first_bad_backend": "inductor",
            "outputs": [
                output(index=0, path="[0]", shape=[4, 10], numel=40),
                output(
                    index=1,
                    path="[1]",
                    dtype="uint8",
                    shape=[4, 128, 32, 32],
                    numel=524288,
                    n_diff=2,
                    max_abs=1.0,
                    max_rel=0.0081,
                    max_ulp=None,
                    rms_error_eager=None,
                    rms_error_compiled=None,
                ),
            ],
        },
        "amplifier": {"node": "ceil", "op": "aten.ceil.default", "gain": "inf"},
        "repairs": [{"decisions": [LAYOUT, VEC], "confirmed": True, "removed_fraction": 1.0}],
        "causes": [
            {
                "decisions": [member],
                "confirmed": True,
                "evidence": {"alone": "FAIL", "without_each": ["PASS"]},
            }
            for member in (LAYOUT, VEC)
        ],
        "minimal": {
            "ops": ["aten.convolution", "aten.erf", "aten.log2", "aten.ceil", "prims.convert_element_type"],
            "n_ops": 5,
            "calls": ["conv2d_2", "erf", "log2", "ceil", "to"],
            "inputs": [{"shape": [1, 3, 4, 4], "dtype": "float32"}],
            "input_numel": 48,
            "lines": 55,
        },
        "repro": "repro.py",
        "probes": {"total": 118, "pass": 51, "fail": 60, "unresolved": 7, "cached": 0},
        "seconds": result["seconds"] | {"total": 201.5, "localise": 20.0, "causes": 90.0, "fixes": 40.0},
        "decisions": {
            LAYOUT: {"text": "the convolution runs in channels-last format", "where": "encoder.py:17"},
            VEC: {"text": "`erf` uses the vector library's approximation", "where": "encoder.py:8"},
        },
    }
    return result


def shares() -> dict[str, Any]:
    """Two causes of which one is a lowering's formula, with the share of each."""
    result = two_causes()
    result["causes"][0]["decisions"] = [SUM]
    result["repairs"][0]["decisions"] = [SUM, VEC]
    result["decisions"][SUM] = {
        "text": "Inductor's own code for aten.sum of total",
        "where": "encoder.py:17",
        "source": "torch/_inductor/lowering.py:7472",
    }
    del result["decisions"][LAYOUT]
    result["graded"] = [
        {"decision": SUM, "removed_fraction": 0.8, "left_fraction": 0.75},
        {"decision": VEC, "removed_fraction": 0.2, "left_fraction": None},
    ]
    return result | {"adds_up": True, "removed_together": 1.0}


def place() -> dict[str, Any]:
    """Only a place is known: one node's fallback repairs, no finer decision does."""
    result = copy.deepcopy(_EMPTY)
    result |= {
        "exit_status": 3,
        "verdict": result["verdict"]
        | {
            "class": "equally-accurate",
            "reason": "",
            "first_bad_backend": "inductor",
            "outputs": [
                output(
                    n_diff=5,
                    max_abs=1.2e-4,
                    max_rel=3e-4,
                    max_ulp=900,
                    rms_error_eager=1.1e-5,
                    rms_error_compiled=1.2e-5,
                )
            ],
        },
        "places": ["lower:aten.gelu.default@gelu"],
        "decisions": {
            "lower:aten.gelu.default@gelu": {
                "text": "`gelu` is computed by Inductor's own code",
                "where": "/home/ada/models/case.py:7",
            }
        },
        "seconds": result["seconds"] | {"total": 40.0, "localise": 8.0, "causes": 20.0},
        "hooks_off": {"fma": "its self-test failed on this torch: denying it changed no code"},
    }
    return result


def nondeterministic() -> dict[str, Any]:
    """The eager run itself is not repeatable."""
    result = copy.deepcopy(_EMPTY)
    result |= {
        "exit_status": 3,
        "verdict": result["verdict"]
        | {
            "class": "nondeterministic",
            "reason": "eager gave 3 different results in 3 runs with seed 0: output out, 64 of 64 elements",
            "first_bad_backend": None,
            "outputs": [],
        },
    }
    return result


def out_of_budget() -> dict[str, Any]:
    """A divergence whose search was cut short: one repair known, not confirmed; nothing else."""
    result = place()
    result |= {"places": [], "hooks_off": {}}
    result["repairs"] = [{"decisions": [VEC], "confirmed": False, "removed_fraction": 0.993}]
    result["stopped_because"] = "the budget of 60 s was spent after 14 of about 40 probes"
    result["probes"] = {"total": 14, "pass": 4, "fail": 9, "unresolved": 1, "cached": 0}
    return result


def unresolved() -> dict[str, Any]:
    """The default compile itself crashes: there is nothing to compare."""
    result = copy.deepcopy(_EMPTY)
    result["exit_status"] = 3
    result["verdict"] |= {
        "class": "unresolved",
        "reason": "the compiled run crashed in 3 of 3 runs: signal 11 in /tmp/torchinductor_ada/xy/cxyz.so",
    }
    result["probes"] = {"total": 3, "pass": 0, "fail": 0, "unresolved": 3, "cached": 0}
    return result


def document(result: Any) -> Document:
    """As a report reads it."""
    return from_json(json.loads(json.dumps(result)))


ALL = {
    sample.__name__: sample
    for sample in (
        agrees,
        softmax_pair,
        two_causes,
        shares,
        place,
        nondeterministic,
        out_of_budget,
        unresolved,
    )
}
