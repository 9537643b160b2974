"""The sections of a report that are about builds of torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bisector.core.found_builds import ChangedDefaults, FoundBuilds

from .blocks import Link, Paragraph, Report, Section, Span, Table, Tone, cell, items
from .document import Document
from .endings import OUTCOMES
from .words import conjunction, file_name

SHORT = 10  # characters of a commit
MOST_COMMITS = 20  # that are listed; result.json has them all


def alone(result: Document) -> bool:
    """Whether the run asked for builds and for nothing else."""
    return result.builds is not None and result.minimal is None


def report(result: Document) -> Report:
    """The report of a run that asked for builds alone."""
    builds = result.builds
    assert builds is not None
    answer = Span(sentence(builds), Tone.GOOD if builds.confirmed else Tone.DOUBTFUL)
    return Report(f"{file_name(result.target)}: what changed between builds", answer, tuple(_rest(builds)))


def sections(builds: FoundBuilds) -> Sequence[Section]:
    """The same as a part of a longer report."""
    return [Section("Builds", (Paragraph(sentence(builds)),)), *_rest(builds)]


def _rest(builds: FoundBuilds) -> Iterator[Section]:
    if builds.moved is not None:
        yield Section("What changed", (Paragraph(_moved(builds.moved)),))
    if (found := builds.changed_defaults) is not None and found.decisive:
        yield Section("Why", tuple(Paragraph(_by_default(found, names)) for names in found.decisive))
    if builds.tried:
        rows = tuple(tuple(map(cell, row)) for row in tried(builds))
        table = Table(rows, ("build", "commit", "outcome"))
        yield Section("Builds tried", (table,), f"{len(builds.tried)}, in this order")
    if builds.compare or builds.commits:
        compare = (Link(builds.compare),) if builds.compare else ()
        yield Section("Between them", (*items(commits(builds)), *compare))
    if builds.not_established:
        yield Section("Not established by the builds", items(list(builds.not_established)))


def sentence(builds: FoundBuilds) -> str:
    """The answer in one sentence."""
    before, after = builds.before, builds.after
    if builds.answer is None or before is None or after is None:
        looked_for = "difference" if builds.looked_for == "compiler" else "change"
        return f"No {looked_for} is found: {builds.reason or 'all builds give the same'}."
    if builds.looked_for == "compiler":
        outcomes = f"diverges with {after.name} and agrees with {before.name}"
        if builds.confirmed:
            return f"It depends on the C++ compiler: it {outcomes}."
        return f"Not confirmed: it seems that it {outcomes}; {builds.reason}."
    older, newer = (f"{build.name} ({OUTCOMES[build.outcome]})" for build in (before, after))
    change = f"{builds.looked_for} between {older} and {newer}"
    if builds.confirmed:
        return f"The divergence was {change}."
    return f"Not confirmed: the divergence seems to be {change}; {builds.reason}."


def tried(builds: FoundBuilds) -> Sequence[Sequence[str]]:
    """A row for each build: name, commit, outcome with the reason."""
    return [
        [
            build.name,
            (build.commit or "")[:SHORT],
            ": ".join(filter(None, [OUTCOMES[build.outcome], build.reason])),
        ]
        for build in builds.tried
    ]


def because(reason: str, same_as: str | None) -> str:
    """Why a build has its outcome. same_as: the build of the same commit that was run in its place."""
    return f"the same commit as {same_as}" if same_as else reason


def commits(builds: FoundBuilds) -> list[str]:
    """A line for each of the commits that are left, those that touch Inductor first."""
    return [
        " ".join(
            filter(
                None,
                [
                    commit.sha[:SHORT],
                    commit.title,
                    f"(pull request {commit.pull})" if commit.pull and "(#" not in commit.title else "",
                    f"[{commit.note}]" if commit.note else "",
                ],
            )
        )
        for commit in builds.commits[:MOST_COMMITS]
    ]


def _by_default(found: ChangedDefaults, names: Sequence[str]) -> str:
    """A default that changed between the two builds, and with it what they give."""
    text = conjunction(
        [
            f"the default of {name} changed from {found.older[name]!r} to {found.newer[name]!r}"
            for name in names
        ]
    )
    return f"{text[0].upper()}{text[1:]}. With the older value the newer build gives what the older one gave."


def _moved(names: Sequence[str]) -> str:
    if not names:
        return "Inputs, eager and compiled have the same bits in both; only what is compared can differ."
    still = [name for name in ("inputs", "eager", "compiled") if name not in names]
    verb = "has" if len(names) == 1 else "have"
    same = f"; the same bits: {', '.join(still)}" if still else ""
    return f"Between the two {' and '.join(names)} {verb} other bits{same}."
