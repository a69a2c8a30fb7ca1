"""The fault laboratory: a robot and a planner that can be broken, and an oracle that judges."""
