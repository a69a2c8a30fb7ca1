"""MuJoCo models with uncertain parameters, and the only caller of the physics batch."""
