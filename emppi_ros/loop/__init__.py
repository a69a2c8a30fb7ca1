"""Planning cycles, belief cycles, and the closed loop of both with a simulated robot."""
