"""Files that were made to harm who opens them."""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import torch

from bisector.attached import bundle
from bisector.attached.written_program import KEPT, LOAD, WrittenProgram

ELEMENTS, CLAIMED = 561, 1 << 29  # float32: 2 KiB that are there, 2 GiB that the header speaks of
CASE = f"""\
from pathlib import Path

import torch

{LOAD}
x = load()["calls"][0]["inputs"][0]
torch.testing.assert_close(torch.compile(torch.sin)(x), torch.sin(x))
"""


class Touches:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


def bundle_of(folder: Path, name: str) -> Path:
    """A whole bundle; returns the file of its inputs."""
    kept = {"calls": [{"inputs": [torch.zeros(ELEMENTS)]}]}
    return bundle.write(folder, name, WrittenProgram(CASE, name, kept), "asked", {}) / KEPT


def malicious_bundle(folder: Path, touched: Path) -> None:
    torch.save({"calls": [{"inputs": [Touches(touched)]}]}, bundle_of(folder, "evil"))


def huge_bundle(folder: Path) -> None:
    """Its inputs are said to be 2 GiB."""
    file = bundle_of(folder, "huge")
    whole = zipfile.ZipFile(file)
    parts = {name: whole.read(name) for name in whole.namelist()}
    there, claimed = b"M" + struct.pack("<H", ELEMENTS), b"J" + struct.pack("<i", CLAIMED)
    with zipfile.ZipFile(file, "w") as changed:
        for name, part in parts.items():
            if name.endswith("data.pkl"):
                assert there in part
                part = part.replace(there, claimed)
            changed.writestr(name, part)


def climbing_archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../escaped.txt", "")
        archive.writestr("model/archive_format", "pt2")
        archive.writestr("model/../../../escaped.txt", "")
