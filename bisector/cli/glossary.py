"""`numbisect explain`: what a kind of decision, a flag or a verdict is, without a run and without torch."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterable, Iterator

from bisector.core.decision import DecisionId
from bisector.core.flags import Flag
from bisector.core.kinds import KINDS, Kind
from bisector.errors import BadOption
from bisector.explain.flags.curated import BACKENDS, catalogue
from bisector.report.words import CLASS_SENTENCES, conjunction, short_decision

from .display import to_stdout
from .output import width

NEAR = 3  # words that are named where one is unknown


def explain(word: str | None) -> int:
    """Print what the word means; without one, which words there are. Raises BadOption for an unknown one."""
    to_stdout("\n".join(_listed() if word is None else _explained(word)) + "\n")
    return 0


def _explained(word: str) -> Iterator[str]:
    flags = {flag.name: flag for flag in catalogue()}
    kind = KINDS.get(DecisionId(word).kind) if word not in CLASS_SENTENCES else None
    name = word.partition(":")[2] if kind is not None and kind.name == "config" else word
    if name.partition("@")[0] in flags:
        return _of_flag(flags[name.partition("@")[0]])
    if kind is not None:
        return _of_kind(kind, word if ":" in word else None)
    if word in CLASS_SENTENCES:
        return _titled(word, "a verdict", [CLASS_SENTENCES[word]])
    endings = [name for name in flags if name.endswith(f".{word}")]
    if len(endings) == 1:
        return _of_flag(flags[endings[0]])
    known = [*KINDS, *CLASS_SENTENCES, *flags]
    near = endings or difflib.get_close_matches(word, known, NEAR)
    hint = f"did you mean {conjunction(near, 'or')}?" if near else "`numbisect explain` lists all"
    raise BadOption(f"{word}: no kind of decision, flag or verdict has this name; {hint}")


def _of_kind(kind: Kind, decision: str | None) -> Iterator[str]:
    sentences = [kind.sentence]
    if decision is not None and "@" in decision:
        sentences.append(f"`{decision}` is {short_decision(DecisionId(decision))}.")
    else:
        sentences.append(f"A decision of this kind reads {kind.name}:DETAIL@NODE.")
    if kind.devices:
        sentences.append(f"Only on {conjunction(sorted(kind.devices), 'or')}.")
    if kind.rungs:
        sentences.append("It is taken where the whole script runs, outside of a single graph.")
    if kind.makes_room:
        sentences.append("It says where a value is computed, and so makes room for a cause of another kind.")
    governing = [flag.name for flag in catalogue() if kind.name in flag.kinds]
    if governing:
        sentences.append("Flags that govern it:")
    return _titled(kind.name, f"a kind of decision: {kind.noun}", sentences, governing)


def _of_flag(flag: Flag) -> Iterator[str]:
    sentences = [f"Effect: {flag.effect}.", f"Closest to eager: {flag.conservative!r}."]
    others = [value for value in flag.values if value != flag.conservative]
    if others:
        sentences.append(f"Also tried: {', '.join(map(repr, others))}.")
    read = BACKENDS.get(flag.backend)
    where = filter(None, [read and f"it changes {read}", flag.device and f"on {flag.device} alone"])
    sentences.append("; ".join([f"In torch since {flag.since}", *where]) + ".")
    sentences += [f"It governs `{name}`. {KINDS[name].sentence}" for name in flag.kinds]
    return _titled(flag.name, f"a flag: {flag.family}", [*sentences, flag.url])


def _listed() -> Iterator[str]:
    yield "Kinds of decision"
    yield from _rows((kind.name, kind.sentence) for kind in KINDS.values())
    yield "Verdicts"
    yield from _rows(CLASS_SENTENCES.items())
    yield "Flags: numbisect flags"


def _rows(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, sentence in rows:
        yield from _wrapped(f"{name:<18} {sentence}", " " * 21)


def _titled(name: str, what: str, sentences: Iterable[str], names: Iterable[str] = ()) -> Iterator[str]:
    yield f"{name}  ({what})"
    for sentence in sentences:
        yield from _wrapped(sentence, "  ")
    yield from (f"    {name}" for name in names)


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, width(), initial_indent="  ", subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
