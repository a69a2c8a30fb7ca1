"""How fast an FR3 may go where it is: as fast as it can still brake below the envelope."""

import numpy as np
import pytest

from emppi_ros.robots import franka_limits, velocity_bounds
from emppi_ros.robots.robot import load_robot

ROBOT = load_robot('fr3')
ENVELOPES = franka_limits.envelopes(ROBOT.published, ROBOT.commanded)
DELAY = 0.02
STEPS = 4000


def _allowed(envelope, room):
    """Return the published speed (..., 7) at distances from the envelope's end of range."""
    ramp = np.sqrt(np.maximum(2.0 * envelope.deceleration * room, 0.0))
    return np.maximum(ramp - envelope.offset, 0.0)


@pytest.mark.parametrize('envelope', ENVELOPES)
@pytest.mark.parametrize('acceleration', [1.0, 2.5, 4.9, 9.0])
def test_the_bound_is_the_largest_speed_whose_braking_stays_below_the_envelope(
    envelope, acceleration
):
    """Go on for the delay, then brake: the way touches the envelope, and never crosses it."""
    braking = np.full(7, acceleration)
    rng = np.random.default_rng(int(10 * acceleration))
    tight = 0
    for _ in range(40):
        room = rng.uniform(0.0, 1.5, 7)
        speed = velocity_bounds._enveloped(envelope, room, braking, np.full(7, DELAY))
        time = np.linspace(0.0, 1.0, STEPS)[:, None] * (speed / braking)
        velocity = speed - braking * time
        way = speed * DELAY + speed * time - 0.5 * braking * time**2
        spare = (_allowed(envelope, room - way) - velocity).min(axis=0)
        moving = speed > 0.0
        # a row of roundings of numbers of order 1 above, a grid of 4000 moments below
        assert np.all(spare[moving] > -1e-9)
        # the envelope is an arc that ends at rest: it is touched on the way or at its end
        assert np.all(spare[moving] < 2e-3)
        tight += int(moving.sum())
    assert tight > 200


@pytest.mark.parametrize('envelope', ENVELOPES)
def test_where_there_is_no_room_there_is_no_speed(envelope):
    speed = velocity_bounds._enveloped(
        envelope, np.full(7, 1e-4), np.full(7, 4.9), np.full(7, DELAY)
    )
    assert np.all(speed == 0.0)
