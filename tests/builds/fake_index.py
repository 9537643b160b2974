"""A package index on loopback with tiny wheels named torch: real HTTP, real archives, no PyTorch in them."""

from __future__ import annotations

import base64
import hashlib
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar
from urllib.parse import quote

PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}"
TAG = f"{PYTHON}-{PYTHON}-manylinux_2_17_x86_64"

# A repro for these wheels: the same three statuses, decided by a number that the wheel holds.
REPRO = """
import sys
import torch


def inputs():
    return [1.0]


if torch.DIFFERENCE is None:
    sys.exit(125)
expected, actual = (torch.Tensor(0.0),), (torch.Tensor(torch.DIFFERENCE),)
sys.exit(1 if torch.DIFFERENCE else 0)
"""

# What a driver asks of the real package, and no more.
INIT = """
from .version import __version__, git_version
from . import version


class Tensor:
    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return repr(self.value)


BINARY = float(open(__path__[0] + "/lib/difference").read())  # stands for what is compiled
DIFFERENCE = {difference}
"""


@dataclass
class FakeIndex:
    """The folder that is served. rows: the links of the page of torch."""

    folder: Path
    rows: list[str] = field(default_factory=list)

    def add(
        self,
        version: str,
        difference: float | None = 0.0,
        *,
        commit: str | None = None,
        build: str = "",
        tag: str = TAG,
        init: str = "",
        yanked: bool = False,
        wrong_hash: bool = False,
        broken: bool = False,
        binary: float = 0.0,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> Path:
        """A wheel and its link. difference: what compiled code is off by, None where it cannot tell. more:
        further files."""
        commit = commit or version_commit(version)
        files = {
            "torch/__init__.py": init or INIT.format(difference=difference),
            "torch/lib/difference": str(binary),
            "torch/version.py": f"__version__ = {version!r}\ngit_version = {commit!r}\n",
            **more,
        }
        parts = [f"torch-{version}", *([build] if build else []), tag]
        path = self.folder / "torch" / ("-".join(parts) + ".whl")
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_wheel(path, version, tag, files)
        if broken:
            path.write_bytes(path.read_bytes()[:-40] + b"\0" * 80)
        digest = hashlib.sha256(b"another file" if wrong_hash else path.read_bytes()).hexdigest()
        marks = ' data-yanked="it crashes"' if yanked else ""
        self.rows.append(f'<a href="{quote(path.name)}#sha256={digest}"{marks}>{path.name}</a><br/>')
        page = "<!DOCTYPE html><html><body>\n" + "\n".join(self.rows) + "\n</body></html>\n"
        (self.folder / "torch" / "index.html").write_text(page)
        return path


def version_commit(version: str) -> str:
    """The commit of a wheel that names none: another one for each version."""
    return hashlib.sha1(version.encode()).hexdigest()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


class WithRanges(Quiet):
    """A server of ranges of bytes, as those of the real indexes are. sent: the bytes of each answer."""

    sent: ClassVar[list[int]] = []

    def do_GET(self) -> None:
        content = Path(self.translate_path(self.path)).read_bytes()
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        start = int(first) if first else max(0, len(content) - int(last))
        part = content[start : int(last) + 1 if first and last else None]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{start + len(part) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)
        self.sent.append(len(part))


@contextmanager
def served(folder: Path, handler: type[Quiet] | None = None) -> Iterator[str]:
    """The URL of the index while the folder is served."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler or Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def _write_wheel(path: Path, version: str, tag: str, files: dict[str, str]) -> None:
    info = f"torch-{version}.dist-info"
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n",
    }
    record = [f"{name},sha256={_digest(text)},{len(text)}" for name, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,"]) + "\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
