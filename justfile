# The tasks of a developer. `just` alone lists them.

python := ".venv/bin/python"

_list:
    @just --list

# an environment with all that the tests need; the torch of the README
install:
    python3 -m venv .venv
    .venv/bin/pip install torch==2.13.0 -e '.[dev]'

# the tests, or those that the arguments of pytest choose
test *arguments:
    {{python}} -m pytest {{arguments}}

# the tests that run compilers and workers at length; `just ci` runs them too
live *arguments:
    {{python}} -m pytest -m live {{arguments}}

lint:
    {{python}} -m ruff check

types:
    {{python}} -m mypy

# numbisect beside torch's own compiler_bisector; takes minutes for each script and run
bench *arguments:
    {{python}} studies/bench/against_bisector.py {{arguments}}

# numbisect beside torch's own minifier, on a bug planted in an encoder; takes up to half an hour for each row
bench-minifier *arguments:
    {{python}} studies/bench/against_minifier.py {{arguments}}

# the worked cases on other releases of torch, as a table; 10 minutes and 1.3 GB on disk for each
versions *arguments="2.11.0 2.12.1 2.13.0 2.14.1 2.15.0":
    {{python}} -m studies.versions.matrix {{arguments}}

# generated programs under `bisector.attach`: FOLDER [COUNT] [SEED]; those that diverge leave bundles there
fuzz *arguments:
    {{python}} -m studies.fuzz.fuzzing {{arguments}}

# what `just fuzz` finds is explained, clustered and repaired, and the same on a Ray cluster; an hour and a half
fuzz-check:
    {{python}} -m pytest -n 0 studies/fuzz

# sixty faults planted one at a time, and which lane of the tests catches each: --only TEXT, --part N/M
planted *arguments:
    {{python}} -m studies.planted {{arguments}}

# `numbisect builds` down to commits over the installed torch's own Python and headers; six minutes
overlay:
    {{python}} -m pytest -n 0 studies/builds

# faults at three moments of a run, as a table; as root for the disks that are full: --only TEXT, --moment MOMENT
faults *arguments:
    {{python}} -m tests.faults.table {{arguments}}

# what is said of planted truths, as a table: --out FOLDER [--count N] [--first SEED]
truth *arguments:
    {{python}} -m studies.truth.matrix {{arguments}}

# the page of a triage in a real browser: pip install playwright, and a Chromium
browser:
    {{python}} -m pytest -m browser -n 0 tests/report

# on a machine with an NVIDIA GPU: the tests that need it, and what it computes, recorded under tests/goldens/gpu
gpu:
    {{python}} -m pytest -n 0 -m gpu tests/gpu
    {{python}} -m tests.gpu.record

# what tests replay is run again (NAME or 'form-*'; all takes an hour and a half); shows what changed
record *names:
    {{python}} -m tests.replay {{names}}

# everything, in a fresh copy and a fresh environment
ci:
    .ci/run
