"""The action that runs a task."""
