"""Curated data: installed as `bisector.configs`, kept here where people look for it."""
