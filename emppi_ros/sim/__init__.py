"""A simulated robot and tracker with hidden true parameters."""
