"""The closed loop in one process: planner, belief, bridge and a simulated robot."""
