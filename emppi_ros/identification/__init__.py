"""Identification of parameters from recorded motion: recordings in, a prior out."""
