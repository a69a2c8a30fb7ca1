"""Multiple shooting, and what the methods that are built on it share."""
