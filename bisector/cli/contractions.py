"""`numbisect contractions`: which products a GPU's compilers contract in the code of a script's call."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bisector import processes, wire
from bisector.core.contracted import ContractionsAsked, ContractionsFound, Site
from bisector.errors import BadOption, BadTarget, MissingTool
from bisector.subject.targets import recognise

from .display import to_stdout
from .output import write_json

LISTED, NONE = 0, 1  # exit statuses
LISTING_S = 3600.0
_ARCHITECTURE = re.compile(r"sm_(\d{2,3})a?")
INSTALL = "contractions needs Triton, the one that goes with your torch: pip install 'numbisect[gpu-sim]'"


def contractions(target: str, given: Mapping[str, Any]) -> int:
    """Prints them; returns the exit status."""
    architecture = _ARCHITECTURE.fullmatch(given["arch"])
    if architecture is None:
        raise BadOption(f"--arch {given['arch']}: write it as sm_80 or sm_90")
    if find_spec("triton") is None:
        raise MissingTool(INSTALL)
    named = recognise(Path(target).resolve(), given["trust"])
    call = (given["call"] or 1) - 1
    asked = ContractionsAsked(str(named.path), named.kind.value, int(architecture[1]), call)
    found = _found(asked)
    if found.problem:
        raise BadTarget(found.problem)
    if given["json_path"] is not None:
        write_json(given["json_path"], wire.dump(found))
    if given["json_path"] != "-":
        to_stdout("\n".join(text(found, given["arch"])) + "\n")
    return LISTED if found.sites else NONE


def _found(asked: ContractionsAsked) -> ContractionsFound:
    command = processes.module("bisector.inductor.gpu_code.listing", json.dumps(wire.dump(asked)))
    done = processes.run(command, LISTING_S)
    if done.status != 0:
        raise MissingTool(f"no code could be generated for a GPU: {done.last_line or done.how}")
    return wire.load(ContractionsFound, json.loads(done.out))


def text(found: ContractionsFound, architecture: str) -> Iterator[str]:
    """The answer as lines."""
    kernels, sites = len(found.kernels), len(found.sites)
    counted = f"{kernels} {'kernel' if kernels == 1 else 'kernels'}"
    if not sites:
        yield f"No product is contracted in {counted} for {architecture}."
        return
    yield f"{sites} {'contraction' if sites == 1 else 'contractions'} in {counted} for {architecture}."
    for site in found.sites:
        yield ""
        yield from _site(site)


def _site(site: Site) -> Iterator[str]:
    made = site.contraction
    product = f"`{site.product}`" if site.product else "a product within it"
    consumer = f"`{site.consumer}`" if site.consumer else "a sum"
    yield f"{made.by} contracts {product} into {consumer}  {site.where}".rstrip()
    opcodes = Counter(instruction.partition(" ")[0] for instruction in made.instructions)
    counts = ", ".join(f"{count} {opcode}" for opcode, count in opcodes.items())
    yield f"  {made.kernel}, line {made.line}: {made.text}"
    yield f"  for each thread: {counts}"
    removed = [*site.denied_by, *site.settings]
    yield f"  denied by: {'; '.join(removed) or 'none of the decisions and settings that were tried'}"
