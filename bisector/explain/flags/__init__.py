"""Flags: the catalogue of those that decide numerics, and the walk over them against a target."""
