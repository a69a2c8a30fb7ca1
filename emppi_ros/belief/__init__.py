"""The belief about a task's parameters: a particle filter in log space."""
