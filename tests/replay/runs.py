"""Every command that is recorded, by the name of its recording."""

from __future__ import annotations

import json
import re
import textwrap

from studies.truth.planted import Planted, Truth, draw
from tests.known import KNOWN
from tests.scripts.above import ABOVE
from tests.scripts.forms import FORMS
from tests.scripts.large import LARGE
from tests.scripts.more_sorts import MORE_SORTS
from tests.scripts.own import OWN
from tests.scripts.pasted import TARGET
from tests.scripts.planted import FUSED, FUSED_TRUTH, PLANT, TWO_CASTS
from tests.scripts.raising import RAISING
from tests.scripts.sorts import SORTS
from tests.scripts.two_calls import TWO_CALLS

from .recording import ROOT, Asked

SCRIPT = "script.py"
TRAINING_STEP = "training-step-of-the-docs"
SHARES = "shares-of-two-casts-in-a-sum"
APPEARS = "a-fusion-that-appears-where-another-is-denied"
PASTED = "flags-of-a-script-with-a-place-for-lines"
REMAT = "repros/softmax_remat/case.py"
BETWEEN = "the last bit of one graph is a step of the next"
CONTRACTION = "inductor.cpp.enable_floating_point_contract_flag"
FP16 = "repros/fp16_round_trip/case.py"


def of_script(command: str, script: str, *options: str, **files: str) -> Asked:
    """A command on a script of its own; files: others beside it, by name without its ending."""
    beside = {f"{name}.yaml": text for name, text in files.items()}
    return Asked((command, SCRIPT, *options), {SCRIPT: textwrap.dedent(script).lstrip("\n"), **beside})


def named(group: str, title: str) -> str:
    """The name of the recording of a script."""
    return f"{group}-{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')}"


# Each kind of planted truth is among these; `python -m studies.truth.matrix` asks hundreds. What moves from
# run to run is recorded as something else each time.
SEEDS = range(20_000, 20_024)
MOVING = (Planted.RACE, Planted.UNDEFINED)
TRUTHS = [truth for truth in map(draw, SEEDS) if truth.planted not in MOVING]


def of_truth(truth: Truth) -> str:
    """The name of its recording."""
    return f"truth-{truth.seed}"


def _agreeing() -> str:
    text = (ROOT / REMAT).read_text()
    assert '"fast"' in text
    return text.replace('"fast"', '"off"')


def _training_step() -> str:
    """The program that the docs show."""
    text = (ROOT / "docs/how-to.md").read_text(encoding="utf-8")
    [step] = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(step)


RUNS = {
    **{case: Asked(("minimize", f"repros/{case}/case.py")) for case in KNOWN},
    **{named("form", title): of_script("check", form.script) for title, form in FORMS.items()},
    **{named("own", title): of_script("check", script) for title, (script, _) in OWN.items()},
    **{named("raises", title): of_script("minimize", one.script) for title, one in RAISING.items()},
    **{named("above", title): of_script("minimize", one.script) for title, one in ABOVE.items()},
    **{named("sort", name): of_script("minimize", one.script) for name, one in (SORTS | MORE_SORTS).items()},
    **{named("large", name): of_script("minimize", script) for name, (script, _, _) in LARGE.items()},
    **{of_truth(truth): of_script("check", truth.source) for truth in TRUTHS},
    "between-two-graphs": of_script("minimize", FORMS[BETWEEN].script),
    SHARES: of_script("minimize", TWO_CASTS, "--rtol", "1e-7", "--atol", "1e-7", "--no-minimize"),
    APPEARS: Asked(
        ("minimize", SCRIPT, "--no-minimize"),
        {SCRIPT: PLANT + FUSED, "truth.json": json.dumps(FUSED_TRUTH)},
    ),
    "all-calls": of_script("minimize", TWO_CALLS, "--all"),
    "flags-fp16": Asked(("flags", FP16)),
    "flags-softmax-remat": Asked(("flags", REMAT)),
    PASTED: of_script("flags", TARGET),
    "flags-against-one-that-agrees": Asked(
        ("flags", f"{ROOT}/{REMAT}", "--against", "good.yaml"),
        {"good.yaml": f"{CONTRACTION}: 'off'\ncpp.simdlen: 256\nmax_fusion_size: 32\n"},
    ),
    "flags-against-one-that-diverges": of_script(
        "flags", _agreeing(), "--against", "bad.yaml", bad=f"{CONTRACTION}: fast\nmax_fusion_size: 32\n"
    ),
    "check-fp16": Asked(("check", FP16)),
    "check-fp16-low-precision": Asked(("check", FP16, "--profile", "low-precision")),
    TRAINING_STEP: of_script("check", _training_step()),
}
