"""The belief about the parameters of a task: a particle filter in log space."""
