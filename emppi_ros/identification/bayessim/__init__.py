"""Likelihood-free inference: a conditional density learned from simulations (BayesSim)."""
