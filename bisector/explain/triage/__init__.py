"""Many failures: one look at each, clustered by cause."""
