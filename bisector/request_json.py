"""Requests to a worker and what comes back, as JSON: what the socket between the two and the journal hold."""

from __future__ import annotations

from typing import Any

from bisector.core.model import Json
from bisector.core.protocol import REQUESTS, Failed, Request

from . import wire


def dump_request(request: Request[Any]) -> dict[str, Json]:
    """A request with the name of its job."""
    return {"job": request.job, **wire.dump(request)}


def load_request(raw: dict[str, Json]) -> Request[Any]:
    """Raises KeyError for a job that there is none of."""
    return wire.load(REQUESTS[raw["job"]], {name: value for name, value in raw.items() if name != "job"})


def load_answer(request: Request[Any], raw: Json) -> Any:
    """What a journal or a worker has as an answer: of the request's type, or Failed."""
    if set(raw) == {"failed"}:
        return Failed(raw["failed"])
    return wire.load(request.answers, raw)


def dump_failed(reason: str) -> Json:
    """A failure in the place of an answer."""
    return {"failed": reason}
