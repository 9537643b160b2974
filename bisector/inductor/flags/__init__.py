"""What the installed torch says of its own settings."""
