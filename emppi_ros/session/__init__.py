"""Sessions of planner and belief, their journal, and the closed loop built from them."""
