"""Ensemble model predictive path integral control."""
