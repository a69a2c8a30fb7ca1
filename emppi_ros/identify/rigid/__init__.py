"""Bodies of an arm from noisy motion and torques: masses, centres, inertias and friction."""
