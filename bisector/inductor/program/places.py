"""The places that hold the state of a program: variables, attributes, entries of containers, the memory of
tensors, random generators, torch's own settings. Each can be read, and be given an earlier value again.
"""

from __future__ import annotations

import contextvars
import hashlib
import itertools
import os
import random
import types
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..equality import digest
from ..tensors import as_bytes, dtype_name
from .reach import CHANGING, PLAIN

MOST_WORDS = 60  # characters of a value
MOST_ITEMS = 20  # of a container


class Absent:
    """In the place of a value where there is none."""


ABSENT = Absent()


@dataclass(frozen=True, eq=False)
class Place(ABC):
    """name: as it is told to the user."""

    name: str

    @abstractmethod
    def read(self) -> Any:
        """What is there now: a copy of what may change. ABSENT where nothing is."""

    @abstractmethod
    def write(self, value: Any) -> None:
        """Make it what was read earlier."""

    def same(self, one: Any, other: Any) -> bool:
        """Whether nothing has changed between two readings."""
        return is_same(one, other)

    def words(self, value: Any) -> str:
        """What was read, in a few words."""
        return in_words(value)

    @property
    @abstractmethod
    def key(self) -> tuple[int, object]:
        """Equal for equal places, whatever their names."""


@dataclass(frozen=True, eq=False)
class Entry(Place):
    """A name in a dictionary: a global variable, an attribute, an entry of a dictionary of the user's."""

    owner: dict[Any, Any]
    entry: Any

    def read(self) -> Any:
        return self.owner.get(self.entry, ABSENT)

    def write(self, value: Any) -> None:
        if value is not ABSENT:
            self.owner[self.entry] = value
        else:
            self.owner.pop(self.entry, None)

    @property
    def key(self) -> tuple[int, object]:
        return id(self.owner), self.entry


@dataclass(frozen=True, eq=False)
class Item(Place):
    """An item of a list."""

    owner: Any
    index: int

    def read(self) -> Any:
        return self.owner[self.index] if self.index < len(self.owner) else ABSENT

    def write(self, value: Any) -> None:
        self.owner[self.index] = value

    @property
    def key(self) -> tuple[int, object]:
        return id(self.owner), self.index


@dataclass(frozen=True, eq=False)
class Attribute(Place):
    """An attribute of an object or a class that keeps it in no dictionary that can be written to. It is
    bound without what a class of the user's does when an attribute is set."""

    owner: Any
    attribute: str

    def read(self) -> Any:
        if isinstance(self.owner, type):  # as it is held there, not as it is bound where it is looked up
            return vars(self.owner).get(self.attribute, ABSENT)
        return getattr(self.owner, self.attribute, ABSENT)

    def write(self, value: Any) -> None:
        kind = type if isinstance(self.owner, type) else object
        if value is not ABSENT:
            kind.__setattr__(self.owner, self.attribute, value)
        else:
            kind.__delattr__(self.owner, self.attribute)

    @property
    def key(self) -> tuple[int, object]:
        return id(self.owner), self.attribute


@dataclass(frozen=True, eq=False)
class Cell(Place):
    """A variable of an enclosing function."""

    cell: types.CellType

    def read(self) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:  # nothing was put into it yet
            return ABSENT

    def write(self, value: Any) -> None:
        if value is not ABSENT:
            self.cell.cell_contents = value

    @property
    def key(self) -> tuple[int, object]:
        return id(self.cell), "cell"


@dataclass(frozen=True, eq=False)
class Content(Place):
    """What is in a container."""

    container: Any

    def read(self) -> Any:
        return self.container.copy()

    def write(self, value: Any) -> None:
        self.container.clear()
        if value is not ABSENT:
            grows = isinstance(self.container, (list, deque))
            (self.container.extend if grows else self.container.update)(value)

    def same(self, one: Any, other: Any) -> bool:
        if one is ABSENT or other is ABSENT or type(one) is not type(other) or len(one) != len(other):
            return one is other
        if isinstance(one, Mapping):
            alike = zip(one.items(), other.items(), strict=True)
            return all(is_same(k, m) and is_same(v, w) for (k, v), (m, w) in alike)
        return bool(one == other) if isinstance(one, set) else all(map(is_same, one, other))

    @property
    def key(self) -> tuple[int, object]:
        return id(self.container), "content"

    def parts(self, before: Any, now: Any) -> Iterator[Place]:
        """The entries that changed between two readings; none where they cannot be told apart."""
        if isinstance(before, dict) and isinstance(now, dict):
            for entry in {**before, **now}:
                if not is_same(before.get(entry, ABSENT), now.get(entry, ABSENT)):
                    yield Entry(self._of(entry), self.container, entry)
        elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
            for index, (one, other) in enumerate(zip(before, now, strict=True)):
                if not is_same(one, other):
                    yield Item(self._of(index), self.container, index)

    def _of(self, entry: object) -> str:
        return f"`{self.name.strip('`')}[{entry!r}]`"


@dataclass(frozen=True, eq=False)
class Environment(Content):
    """The variables of the process, without those that torch keeps there for itself."""

    def read(self) -> Any:
        return {name: value for name, value in os.environ.items() if not name.startswith("_")}

    def write(self, value: Any) -> None:
        for name in self.read():
            if name not in value:
                del os.environ[name]
        os.environ.update(value)


@dataclass(frozen=True, eq=False)
class Hooks(Content):
    """What is registered to run with the passes of a module or tensor."""

    def words(self, value: Any) -> str:
        return "none" if value is ABSENT or not value else str(len(value))

    def parts(self, before: Any, now: Any) -> Iterator[Place]:
        return iter(())


@dataclass(frozen=True, eq=False)
class Memory(Place):
    """What is in the memory of a tensor. Autograd does not see that it is put back."""

    tensor: torch.Tensor

    def read(self) -> Any:
        return self.tensor.untyped_storage().clone()

    def write(self, value: Any) -> None:
        self.tensor.untyped_storage().copy_(value)

    def same(self, one: Any, other: Any) -> bool:
        return one.nbytes() == other.nbytes() and torch.equal(as_bytes(one), as_bytes(other))

    def words(self, value: Any) -> str:
        return f"values {digest([as_bytes(value)])[:4]}"

    @property
    def key(self) -> tuple[int, object]:
        return self.tensor.untyped_storage().data_ptr(), "memory"


@dataclass(frozen=True, eq=False)
class Randomness(Place):
    """The state of a generator of Python's `random`."""

    generator: random.Random

    def read(self) -> Any:
        return self.generator.getstate()

    def write(self, value: Any) -> None:
        self.generator.setstate(value)

    def same(self, one: Any, other: Any) -> bool:
        return bool(one == other)

    def words(self, value: Any) -> str:
        return f"random state {hashlib.sha256(repr(value).encode()).hexdigest()[:4]}"

    @property
    def key(self) -> tuple[int, object]:
        return id(self.generator), "state"


@dataclass(frozen=True, eq=False)
class ContextVariable(Place):
    """A variable of Python's `contextvars`, in the context that runs."""

    variable: contextvars.ContextVar[Any]

    def read(self) -> Any:
        try:
            return self.variable.get()
        except LookupError:  # it was not set, and has no default
            return ABSENT

    def write(self, value: Any) -> None:
        if value is not ABSENT:
            self.variable.set(value)

    @property
    def key(self) -> tuple[int, object]:
        return id(self.variable), "value"


@dataclass(frozen=True, eq=False)
class Setting(Place):
    """A setting of torch's that holds for all threads."""

    get: Callable[[], Any]
    put: Callable[[Any], Any]

    def read(self) -> Any:
        return self.get()

    def write(self, value: Any) -> None:
        self.put(value)

    @property
    def key(self) -> tuple[int, object]:
        return 0, self.name


SETTINGS = (
    Setting("the default dtype", torch.get_default_dtype, torch.set_default_dtype),
    Setting(
        "whether only deterministic algorithms are used",
        torch.are_deterministic_algorithms_enabled,
        lambda value: torch.use_deterministic_algorithms(
            value, warn_only=torch.is_deterministic_algorithms_warn_only_enabled()
        ),
    ),
)


def is_same(one: Any, other: Any) -> bool:
    """Whether two values of a variable are the same: plain ones by what they are, others by identity."""
    if one is other:
        return True
    if isinstance(one, PLAIN):
        return type(one) is type(other) and repr(one) == repr(other)  # -0.0 and NaN too
    if type(one) in (tuple, frozenset) and type(one) is type(other) and len(one) == len(other):
        return all(map(is_same, one, other)) if isinstance(one, tuple) else bool(one == other)
    return False


def in_two_words(was: str, now: str) -> tuple[str, str]:
    """Of two values that are not the same: told apart where their words are not."""
    return was, f"another {now}" if was == now else now


def in_words(value: Any) -> str:
    """A value, for a sentence."""
    if value is ABSENT:
        return "absent"
    if isinstance(value, torch.Tensor):
        return f"{dtype_name(value.dtype)}{list(value.shape)}"
    if isinstance(value, types.FunctionType):
        where = f"{os.path.basename(value.__code__.co_filename)}:{value.__code__.co_firstlineno}"
        return f"{value.__qualname__.replace('.<locals>', '')} ({where})"
    if isinstance(value, (*PLAIN, torch.dtype)):
        return _short(repr(value))
    if isinstance(value, (*CHANGING, tuple, frozenset)):
        return _short(_of_container(value))
    return getattr(value, "__qualname__", None) or f"{type(value).__name__} object"


def _of_container(value: Any) -> str:
    """Its plain items; of others the type alone: what their own `__repr__` does is not known."""
    items = value.items() if isinstance(value, Mapping) else value
    few = list(itertools.islice(items, MOST_ITEMS))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_of_item(key)}: {_of_item(one)}" for key, one in few) + "}"
    text = ", ".join(map(_of_item, few))
    return f"[{text}]" if isinstance(value, (list, deque)) else f"({text})"


def _of_item(value: Any) -> str:
    return repr(value) if isinstance(value, PLAIN) else type(value).__name__


def _short(text: str) -> str:
    return text if len(text) <= MOST_WORDS else f"{text[:MOST_WORDS]}..."
