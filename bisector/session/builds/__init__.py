"""Asks builds of PyTorch."""
