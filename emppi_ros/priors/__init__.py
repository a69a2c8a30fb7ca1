"""Distributions of parameters: priors, and weighted particles."""
