"""`python -m bisector` is `numbisect`."""

from bisector.cli import main

main()
