"""Benchmark of articulation: mechanisms in MuJoCo, and published tracks of real ones."""
