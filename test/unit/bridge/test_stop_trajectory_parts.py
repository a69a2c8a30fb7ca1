"""The parts of a stop trajectory, each compared with an independent computation."""

import numpy as np
import pytest
import ruckig

from emppi_ros.bridge import stop_trajectory
from emppi_ros.bridge.joint_trajectory import MotionState
from emppi_ros.robots import franka_limits, velocity_bounds
from emppi_ros.robots.robot import load_robot

PANDA, FR3 = load_robot('panda'), load_robot('fr3')
LOWER, UPPER = np.array(FR3.limits.position.lower), np.array(FR3.limits.position.upper)


def _dense(made):
    """Return positions and velocities (n, joints) of a path, 200 between each two points."""
    q, v = [], []
    for i in range(len(made.times) - 1):
        span = made.times[i + 1] - made.times[i]
        t = np.linspace(0.0, span, 200)[:, None]
        a = made.accelerations[i]
        jerk = (made.accelerations[i + 1] - a) / span
        v.append(made.velocities[i] + a * t + jerk * t**2 / 2.0)
        q.append(made.positions[i] + made.velocities[i] * t + a * t**2 / 2.0 + jerk * t**3 / 6.0)
    return np.concatenate(q), np.concatenate(v)


@pytest.mark.slow
@pytest.mark.parametrize('braking', [False, True])
def test_a_path_is_within_the_fr3s_envelope_if_all_its_samples_are(braking):
    rng = np.random.default_rng(int(braking))
    a, j = velocity_bounds.usable_acceleration(FR3), velocity_bounds.usable_jerk(FR3)
    seen = {True: 0, False: 0}
    for _ in range(800):
        velocity = rng.uniform(-0.6, 0.6) * rng.uniform(-1.0, 1.0, 7)
        velocity *= np.array(FR3.limits.velocity)
        # towards the end stop, from so close that some cannot stop in time
        room = rng.uniform(0.0, 1.0, 7) * velocity**2 / a + rng.uniform(0.02, 0.5, 7)
        position = np.clip(np.where(velocity > 0.0, UPPER - room, LOWER + room), LOWER, UPPER)
        state = MotionState(position, velocity, np.zeros(7))
        if braking:
            made = stop_trajectory._each_alone(state, 0.0, a, j)
        else:
            phases = stop_trajectory._together(
                state, np.full(7, 0.005), rng.uniform(0.0, 0.1), a, j
            )
            made = stop_trajectory._integrate(state, 0.0, phases)
        q, v = _dense(made)
        down, up = franka_limits.velocity_envelope('fr3', FR3.commanded, q)
        spare = min((v - down).min(), (up - v).min())
        inside = np.all((q[-1] >= LOWER) & (q[-1] <= UPPER))
        # `_within` checks six times between two points: errors are at most the arc between them
        if not inside or spare < -0.05 or spare > 1e-6:
            expected = bool(inside and spare > 0.0)
            assert stop_trajectory._within(FR3, made) == expected, (inside, spare)
            seen[expected] += 1
    assert min(seen.values()) > 20


def test_a_path_that_ends_beyond_the_limits_is_not_within():
    state = MotionState(np.array(PANDA.home), np.full(7, 0.3), np.zeros(7))
    made = stop_trajectory.build(PANDA, state, 0.02, 0.06)
    assert stop_trajectory._within(PANDA, made)
    limits = PANDA.limits.position
    for bound, away in ((limits.lower, -1e-9), (limits.upper, 1e-9)):
        for joint in range(7):
            positions = made.positions.copy()
            positions[-1, joint] = bound[joint]
            assert stop_trajectory._within(PANDA, made._replace(positions=positions))
            positions[-1, joint] += away
            assert not stop_trajectory._within(PANDA, made._replace(positions=positions))


def test_accelerations_end_before_the_joint_passes_rest_or_its_limit():
    rng, ramp = np.random.default_rng(0), 0.005
    most, jerk = np.array(PANDA.limits.velocity), velocity_bounds.usable_jerk(PANDA)
    shortened = reduced = 0
    for _ in range(2000):
        near = rng.choice([0.0, 1.0], 7) * most * rng.choice([-1.0, 1.0], 7)
        velocity = np.clip(near + 0.01 * rng.standard_normal(7), -most, most)
        velocity[rng.random(7) < 0.1] = 0.0
        wanted = rng.uniform(-1.0, 1.0, 7) * ramp * jerk
        state = MotionState(np.array(PANDA.home), velocity, wanted)
        given, time = stop_trajectory._release(PANDA, state, ramp, jerk)
        after = velocity + 0.5 * given * time
        # rounding of products of numbers of order 1 and 1000
        assert np.all(np.abs(after) <= most + 1e-12)
        assert np.all(after * velocity >= -1e-12)
        assert np.all(np.abs(given) <= jerk * time * (1.0 + 1e-9))
        assert np.all((given == 0.0) | (np.sign(given) == np.sign(wanted)))
        assert np.all(given[velocity == 0.0] == 0.0)
        # with room, the acceleration is unchanged and all joints take the same time
        towards = velocity * wanted < 0.0
        room = np.where(towards, np.abs(velocity), most - np.abs(velocity))
        free = (np.abs(wanted) * ramp / 2.0 < room) & (velocity != 0.0)
        assert np.all(given[free] == wanted[free]) and np.all(time[free] == ramp)
        shortened += int(np.sum(time < ramp))
        reduced += int(np.sum((given != wanted) & (given != 0.0)))
    assert shortened > 100 and reduced > 100


def test_one_joint_stops_as_fast_as_with_ruckig():
    rng, most, jerk = np.random.default_rng(0), 4.9, 980.0
    for _ in range(300):
        v = rng.uniform(-2.0, 2.0)
        a = rng.uniform(-1.0, 1.0) * most
        begin, durations, jerks = stop_trajectory._stop(v, a, most, jerk)
        # an acceleration that would reverse the joint is reduced to the largest that does not
        if v * a < 0.0 and a * a > 2.0 * jerk * abs(v):
            assert begin == pytest.approx(np.sign(a) * np.sqrt(2.0 * jerk * abs(v)), rel=1e-12)
        else:
            assert begin == a
        wanted = ruckig.InputParameter(1)
        wanted.control_interface = ruckig.ControlInterface.Velocity
        wanted.current_velocity, wanted.current_acceleration = [v], [begin]
        wanted.target_velocity, wanted.target_acceleration = [0.0], [0.0]
        wanted.max_acceleration, wanted.max_jerk = [most], [jerk]
        way = ruckig.Trajectory(1)
        ruckig.Ruckig(1).calculate(wanted, way)
        assert sum(durations) == pytest.approx(way.duration, abs=1e-9)
        speed, acceleration = v, begin
        for t, change in zip(durations, jerks, strict=True):
            speed += acceleration * t + change * t**2 / 2.0
            acceleration += change * t
        # a dozen roundings of numbers of order 1 and 1000
        assert speed == pytest.approx(0.0, abs=1e-12)
        assert acceleration == pytest.approx(0.0, abs=1e-10)


@pytest.mark.parametrize('a', [0.0, -1.0, 3.0])
def test_a_joint_at_rest_stays_and_one_that_accelerates_from_rest_is_stopped(a):
    begin, durations, jerks = stop_trajectory._stop(0.0, a, 4.9, 980.0)
    if a == 0.0:
        assert (begin, sum(durations), jerks) == (0.0, 0.0, (0.0, 0.0, 0.0))
        return
    assert begin == a and sum(durations) > 0.0
    assert np.sign(jerks[0]) == -np.sign(a)


def test_joints_that_stop_independently_match_single_joints():
    rng = np.random.default_rng(0)
    a, j = velocity_bounds.usable_acceleration(FR3), velocity_bounds.usable_jerk(FR3)
    for _ in range(100):
        state = MotionState(
            np.array(FR3.home), rng.uniform(-1.0, 1.0, 7), rng.uniform(-1.0, 1.0, 7) * a
        )
        made = stop_trajectory._each_alone(state, 0.5, a, j)
        assert made.times[0] == 0.5
        for joint in range(7):
            begin, durations, jerks = stop_trajectory._stop(
                state.velocity[joint], state.acceleration[joint], a[joint], j[joint]
            )
            assert made.accelerations[0, joint] == begin
            for time, v in zip(made.times[1:-1], made.velocities[1:-1, joint], strict=True):
                left, speed, acceleration = time - 0.5, state.velocity[joint], begin
                for span, change in zip(durations, jerks, strict=True):
                    t = min(span, left)
                    speed += acceleration * t + change * t**2 / 2.0
                    acceleration += change * t
                    left -= t
                # rounding of about twenty sums of numbers of order 1
                assert v == pytest.approx(speed, abs=1e-11)
