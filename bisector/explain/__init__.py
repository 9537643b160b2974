"""The one place that wires the stages: subject, probes, search, answer, report."""
