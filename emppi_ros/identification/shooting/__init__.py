"""Least squares over short windows, for real recordings."""
