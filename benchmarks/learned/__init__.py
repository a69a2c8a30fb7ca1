"""MPPI whose model is a network that was trained on recorded motion."""
