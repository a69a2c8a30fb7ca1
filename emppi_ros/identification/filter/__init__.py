"""Posterior of a task's parameters from the predictions of its belief (method `filter`)."""
