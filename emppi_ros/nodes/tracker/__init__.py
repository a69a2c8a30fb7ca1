"""Node `tracker`: poses of parts from depth images."""
