"""`attach`: what a fuzzer puts around its oracle."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from bisector.errors import first_line

from ..inductor.graph.values import CannotWrite
from . import bundle
from .listeners import install
from .recording import Recording, recording
from .written_program import program

P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class Scope:
    """What one oracle's run left. bundles: the folders that were written; problem: why there is none of a
    divergence, in one line."""

    bundles: list[Path] = field(default_factory=list)
    problem: str | None = None


@dataclass
class Attached:
    """See `attach`."""

    folder: Path
    name: str | None
    note: Mapping[str, Any]
    tolerance: tuple[float, float] | None
    reraise: bool
    _open: list[contextlib.ExitStack] = field(default_factory=list, init=False)

    def __call__(self, oracle: Callable[P, R]) -> Callable[P, R | None]:
        """The oracle, such that its failure is a bundle. It fails where an assertion of its own does, or by
        returning False; a failed assertion returns None."""
        named = replace(self, name=self.name or getattr(oracle, "__name__", None))

        @functools.wraps(oracle)
        def attached(*args: P.args, **kwargs: P.kwargs) -> R | None:
            with named.opened() as (scope, recorded):
                returned = oracle(*args, **kwargs)
                if returned is False:
                    named._keep(scope, recorded, "the oracle returned False")
                return returned
            return None

        return cast("Callable[P, R | None]", attached)

    def __enter__(self) -> Scope:
        stack = contextlib.ExitStack()
        scope, _ = stack.enter_context(self.opened())
        self._open.append(stack)
        return scope

    def __exit__(self, *raised: Any) -> bool | None:
        return self._open.pop().__exit__(*raised)

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[Scope, Recording]]:
        install()
        scope = Scope()
        with recording() as recorded:
            try:
                yield scope, recorded
            except AssertionError as error:
                if not recorded.calls and recorded.lost is None:
                    raise  # nothing compiled was run: it is no divergence of Inductor's
                self._keep(scope, recorded, first_line(error))
                if self.reraise or scope.problem is not None:
                    raise

    def kept(self, recorded: Recording, oracle: str) -> Scope:
        """The bundle of what was recorded; oracle: its finding, in words."""
        scope = Scope()
        self._keep(scope, recorded, oracle)
        return scope

    def _keep(self, scope: Scope, recorded: Recording, oracle: str) -> None:
        try:
            scope.bundles.append(self._written(recorded, oracle))
        except (CannotWrite, OSError) as error:
            scope.problem = f"the divergence cannot be kept: {error}"

    def _written(self, recorded: Recording, oracle: str) -> Path:
        name = self.name or "case"
        if recorded.lost is not None:
            raise CannotWrite(recorded.lost)
        header = [f"{name}: {oracle}", "`numbisect minimize` of this folder says why."]
        made = program(recorded.suspects(), self.tolerance or recorded.tolerance, header)
        return bundle.write(self.folder, name, made, oracle, self.note)


def attach(
    folder: str | Path,
    *,
    name: str | None = None,
    note: Mapping[str, Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    reraise: bool = False,
) -> Attached:
    """Around an oracle, as a context manager or a decorator: a divergence becomes a bundle; fuzzing goes on.

    Where an assertion fails in the block after something was run that torch.compile had compiled with
    Inductor, what was compiled and its inputs are written to a folder of their own in `folder`; the assertion
    goes no further. Other exceptions pass: a crash is no divergence. So does a failed assertion where nothing
    compiled was run, or where what was run cannot be written as plain torch (`Scope.problem` says why).

        with bisector.attach("failures", note={"seed": seed}) as scope:
            torch.testing.assert_close(torch.compile(program)(*inputs), program(*inputs))

    folder: where bundles go; made when there is one. Each is a target of `numbisect minimize`.
    name: what they are called; of a decorator, by default the oracle's name.
    note: kept in `bundle.json`, such as the fuzzer's seed; plain data.
    rtol, atol: of the oracle, both or neither; by default those of the assert_close that failed.
    reraise: whether a failed assertion goes on after the bundle is written.
    Raises ValueError for one tolerance without the other, TypeError for a note that JSON does not take.
    """
    json.dumps(note)
    if (rtol is None) != (atol is None):
        raise ValueError("rtol and atol go together: give both")
    tolerance = (rtol, atol) if rtol is not None and atol is not None else None
    return Attached(Path(folder), name, dict(note or {}), tolerance, reraise)

