"""State estimation: from joint states and tracked poses to the state of the model."""
