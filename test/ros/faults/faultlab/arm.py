"""An arm inside of a test: it does what it was told last, and is never measured twice the same."""

import time

import numpy as np

NOISE = 1e-6  # rad and rad/s


class Arm:
    """Follows velocities, on a clock that never jumps."""

    def __init__(self, position):
        """Rest at a position (joints,)."""
        self.position, self.velocity = np.array(position), np.zeros(len(position))
        self._moment, self._rng = time.monotonic(), np.random.default_rng(0)

    def follow(self, velocity):
        """Move at a velocity (joints,) from now on."""
        self._advance()
        self.velocity = np.array(velocity)

    def measure(self):
        """Return position and velocity (joints,) of now."""
        self._advance()
        return [row + self._rng.normal(0.0, NOISE, row.shape) for row in self]

    def __iter__(self):
        return iter((self.position, self.velocity))

    def _advance(self):
        now = time.monotonic()
        self.position = self.position + (now - self._moment) * self.velocity
        self._moment = now
