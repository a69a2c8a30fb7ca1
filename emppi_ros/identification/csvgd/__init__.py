"""Constrained Stein variational gradient descent (Heiden et al., ICRA 2022)."""
