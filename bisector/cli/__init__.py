"""The command line: a module for each command, what goes to the screen, and the options as data."""
