"""A simulated robot and tracker, with true parameters that nobody else sees."""
