"""The node `bridge`."""
