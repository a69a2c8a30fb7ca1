"""Posteriors of a task's parameters, by the belief's own predictions over whole recordings."""
