"""Constrained Stein variational inference of parameters (Heiden et al., ICRA 2022)."""
