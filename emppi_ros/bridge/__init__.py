"""Plans to commands: checks, limits, watchdog and braking."""
