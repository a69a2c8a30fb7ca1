"""Benchmarks: studies of the package, run by `emppi bench` in a checkout."""

from pathlib import Path

ASSETS = Path(__file__).resolve().parent / 'assets'  # scenes and models of the studies
