"""Placeholder until the self-test lands."""
def run() -> dict[str, str | None]:
    return {}
