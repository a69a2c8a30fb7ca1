"""Runtime task switching."""
