"""Journals of the calls of planner and belief, and snapshots of their state."""
