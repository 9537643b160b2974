"""Making a case smaller. A pass proposes cases; only the question "is it still interesting?" is asked."""
