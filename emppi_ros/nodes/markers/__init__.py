"""The node `markers`."""
