"""The node `simulator`."""
