"""The node `belief`."""
