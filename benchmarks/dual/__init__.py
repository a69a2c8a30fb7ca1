"""Controllers that learn parameters while they control, by two kinds of inference."""
