"""Planners of other people against this one, on their tasks."""
