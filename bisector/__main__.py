"""`python -m bisector` is `numbisect`."""

from bisector.cli.main import main

main()
