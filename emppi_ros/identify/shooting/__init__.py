"""Multiple shooting over short windows, for real recordings."""
