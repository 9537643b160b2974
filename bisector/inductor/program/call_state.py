"""The state that a call of something compiled begins with, besides the values that it is given: what it is,
how it differs from that of an earlier call, and how each part of it is put back.

Reached is what `reach` walks to: variables of functions, attributes of modules and of the user's objects,
containers by what is in them, hooks, generators of Python's `random`, the memory of tensors, and settings of
torch. What is reached in other ways is not seen.
"""

from __future__ import annotations

import contextvars
import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..generators import Generators
from ..tensors import dtype_name
from ..torch_state import Modes
from .places import (
    ABSENT,
    SETTINGS,
    Attribute,
    Cell,
    Content,
    ContextVariable,
    Entry,
    Environment,
    Hooks,
    Memory,
    Place,
    Randomness,
    in_two_words,
)
from .reach import (
    CHANGING,
    Reached,
    attributes_of,
    global_names,
    hooks_of,
    is_an_object,
    is_own,
    walk,
)

DEPTH = 2  # containers within containers
MOST_ENTRIES = 32  # of a container in which further containers are looked for
MOST_CHANGES = 4  # that are told
_OF_MODULES = ("_parameters", "_buffers", "_modules")


@dataclass(frozen=True)
class Change:
    """Of the state between two calls. was, now: in words."""

    name: str
    was: str
    now: str

    def put_back(self) -> None:
        """In the program, until it is taken away again."""

    def take_away(self) -> None:
        """Make it what it is now."""

    def of_inputs(self, flat: Sequence[Any]) -> Sequence[Any]:
        """The arguments as they would be without the change."""
        return flat

    def of_modes(self, modes: Modes) -> Modes:
        """The modes as they would be without it."""
        return modes

    @property
    def told(self) -> str:
        return f"{self.name} ({self.was} -> {self.now})"


@dataclass(frozen=True)
class _Held(Change):
    """Of a place. before, after: what was read there."""

    place: Place
    before: Any
    after: Any

    def put_back(self) -> None:
        self.place.write(self.before)

    def take_away(self) -> None:
        self.place.write(self.after)


@dataclass(frozen=True)
class _OfModes(Change):
    """Of a mode that belongs to the calling thread. device: of an autocast; empty for grad mode."""

    before: Modes
    device: str = ""

    def of_modes(self, modes: Modes) -> Modes:
        if not self.device:
            return replace(modes, grad_enabled=self.before.grad_enabled)
        before = self.before.autocast[self.device]
        return replace(modes, autocast={**modes.autocast, self.device: before})


@dataclass
class State:
    """As it is now, to be put back. model: what was compiled. given: the objects that the call is given, by
    name. memory: whether what is in the memory of tensors belongs to it, which is copied; files: whether all
    global variables of the files do in which its functions stand."""

    model: Any
    given: Mapping[str, Any] = field(default_factory=dict)
    memory: bool = True
    files: bool = False
    modes: Modes = field(init=False)
    kept: dict[tuple[type, str], tuple[Place, Any]] = field(init=False)
    _generators: Generators = field(init=False)

    def __post_init__(self) -> None:
        self.modes = Modes.now()
        self._generators = Generators()
        self.kept = {_slot(place): (place, place.read()) for place in _distinct(self._places())}

    def _places(self) -> Iterator[Place]:
        yield from SETTINGS
        yield Environment("`os.environ`", os.environ)
        every = [walk(root, name) for name, root in (("", self.model), *self.given.items())]
        for found in every:
            yield from _of_modules(found)
            yield from _of_functions(found)
            for name, owner in found.objects.items():
                yield from _attributes(name, owner)
            for name, value in found.bound.items():
                yield from _within(name, value)
            yield from self._of_tensors(found)
        if self.files:
            yield from _of_files(every[0])

    def _of_tensors(self, found: Reached) -> Iterator[Place]:
        for path, tensor in found.tensors():
            yield from (Hooks(f"the {sort} of `{path}`", hooks) for sort, hooks in hooks_of(tensor))
            if self.memory and tensor.layout is torch.strided and tensor.device.type != "meta":
                yield Memory(f"the values of `{path}`", tensor)

    def put_back(self) -> None:
        """Make everything as it was; can be done several times."""
        for place, value in self.kept.values():
            if not place.same(value, place.read()):
                place.write(value)
        self._generators.put_back()

    def tensors(self) -> Iterator[tuple[torch.Tensor, Place]]:
        """Those that something is bound to, with the place where it is."""
        for place, value in self.kept.values():
            if isinstance(value, torch.Tensor):
                yield value, place

    def has_drawn(self) -> bool:
        """Whether random numbers were drawn since."""
        return bool(self._generators.drawn())

    def changes(self, before: State) -> list[Change]:
        """What is not as it was in an earlier state."""
        found: list[Change] = []
        for slot in {**before.kept, **self.kept}:
            found += _changes(before.kept.get(slot), self.kept.get(slot))
        found += _changes_of_modes(before.modes, self.modes)
        return sorted(found, key=_is_memory)  # of a model in training all of it changes


def _is_memory(change: Change) -> bool:
    return isinstance(change, _Held) and isinstance(change.place, Memory)


def _slot(place: Place) -> tuple[type, str]:
    """What is compared between two states: a container and the variable that it is bound to have one name."""
    return type(place), place.name


def _changes(was: tuple[Place, Any] | None, now: tuple[Place, Any] | None) -> Iterator[Change]:
    known = now or was
    assert known is not None
    place, before, after = known[0], was[1] if was else ABSENT, now[1] if now else ABSENT
    if was is not None and now is not None and was[0].key != now[0].key:
        return  # the name is bound to another container or tensor, which is a change of its own
    if (was is None or now is None) and not isinstance(place, (Entry, Attribute, Cell, Hooks)):
        return  # likewise
    if place.same(before, after):
        return
    parts = list(place.parts(before, after)) if isinstance(place, Content) else []
    yield from (_change(part, _entry(before, part), _entry(after, part)) for part in parts)
    if not parts:
        yield _change(place, before, after)


def _entry(content: Any, part: Place) -> Any:
    """Of a container's content what belongs to one of its parts."""
    at = part.key[1]
    return content.get(at, ABSENT) if isinstance(content, dict) else content[at]


def _change(place: Place, before: Any, after: Any) -> Change:
    was, now = in_two_words(place.words(before), place.words(after))
    return _Held(place.name, was, now, place, before, after)


def _changes_of_modes(before: Modes, now: Modes) -> Iterator[Change]:
    if before.grad_enabled != now.grad_enabled:
        yield _OfModes("grad mode", str(before.grad_enabled), str(now.grad_enabled), before)
    for device, (on, dtype) in now.autocast.items():
        was, was_dtype = before.autocast.get(device, (False, dtype))
        if (on, dtype if on else None) != (was, was_dtype if was else None):
            told = [dtype_name(d) if is_on else "off" for is_on, d in ((was, was_dtype), (on, dtype))]
            yield _OfModes(f"autocast on {device}", told[0], told[1], before, device)


def told(changes: Sequence[Change], call: int) -> str:
    """What has changed, in a sentence. call: the number of the call that compiled the code, from 1."""
    if not changes:
        return f"of what was looked at, nothing has changed since call {call}, which compiled it last"
    more = f" and {len(changes) - MOST_CHANGES} more" if len(changes) > MOST_CHANGES else ""
    shown = ", ".join(change.told for change in changes[:MOST_CHANGES])
    return f"since call {call}, which compiled it last, there changed {shown}{more}"


# -- the walk ---------------------------------------------------------------------------------------------


def _distinct(places: Iterator[Place]) -> Iterator[Place]:
    """Each place once; further ones of the same name are numbered."""
    seen, names = set[tuple[int, object]](), Counter[tuple[type, str]]()
    for place in places:
        if place.key in seen:
            continue
        seen.add(place.key)
        names[_slot(place)] += 1
        number = names[_slot(place)]
        yield place if number == 1 else replace(place, name=f"{place.name} ({number})")


def _of_modules(found: Reached) -> Iterator[Place]:
    for prefix, owner in found.owners.items():
        if not isinstance(owner, torch.nn.Module):
            continue
        for path, module in owner.named_modules():
            where = ".".join(filter(None, (prefix, path)))
            told = f"`{where}`" if where else "the module"
            yield from (Hooks(f"the {sort} of {told}", hooks) for sort, hooks in hooks_of(module))
            yield Entry(f"whether {told} is in training", module.__dict__, "training")
            own = [(module.__dict__[kind], key) for kind in _OF_MODULES for key in module.__dict__[kind]]
            own += [(module.__dict__, k) for k in module.__dict__ if is_own(module, k) and k != "training"]
            for names, key in own:
                name = f"{where}.{key}" if where else f"{type(module).__name__}().{key}"
                yield Entry(f"`{name}`", names, key)
                yield from _within(name, names[key])


def _of_functions(found: Reached) -> Iterator[Place]:
    for function in found.functions:
        names = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in names:
            yield (place := Cell(f"`{name}`", cell))
            yield from _within(name, place.read())
        for name in global_names(function):
            yield Entry(f"`{name}`", function.__globals__, name)
            yield from _within(name, function.__globals__[name])


def _of_files(found: Reached) -> Iterator[Place]:
    files = {id(function.__globals__): function.__globals__ for function in found.functions}
    for names in files.values():
        for name, value in list(names.items()):
            if not name.startswith("__"):
                yield Entry(f"`{name}`", names, name)
                yield from _within(name, value)
                if is_an_object(value):
                    yield from _attributes(name, value)


def _attributes(name: str, owner: Any) -> Iterator[Place]:
    names = getattr(owner, "__dict__", None)
    for key, value in attributes_of(owner).items():
        inside = isinstance(names, dict) and key in names
        path = f"{name}.{key}"
        yield Entry(f"`{path}`", names, key) if inside else Attribute(f"`{path}`", owner, key)  # type: ignore[arg-type]
        yield from _within(path, value)


def _within(name: str, value: Any, depth: int = DEPTH) -> Iterator[Place]:
    """What a value holds that may change."""
    if isinstance(value, random.Random):
        yield Randomness(f"`{name}`", value)
    elif isinstance(value, contextvars.ContextVar):
        yield ContextVariable(f"`{name}`", value)
    elif type(value) in CHANGING:
        yield Content(f"`{name}`", value)
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for _, (key, one) in zip(range(MOST_ENTRIES), items if depth else (), strict=False):
            yield from _within(f"{name}[{key!r}]", one, depth - 1)

