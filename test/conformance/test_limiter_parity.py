"""
The bridge's limiter against franka-sim's own checker of motion limits, at 1 kHz.

A stream is 50 commands (50 ms) that begin with a new random target, in whatever state the last
stream left the arm. `EMPPI_STREAMS=1000000` runs that many, for longer than a test otherwise may
(`--timeout 0`); `-s` shows the counts. Many arms run at once: the limiter's functions take them
as one robot with 7 N joints (all but the clamp act on each joint alone; that one is done per arm
here), and the checker's differences are taken for all arms together. Two tests show that both
are what they stand for, bit by bit.
"""

import dataclasses
import os
from typing import NamedTuple

import numpy as np
import pytest

from emppi_ros.bridge import jerk_limiter
from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.robots import velocity_bounds
from emppi_ros.robots.robot import JointLimits, PositionLimits, Robot, load_robot

modes = pytest.importorskip('franka_sim.control_modes', reason='franka-sim: its own environment')
checker = pytest.importorskip('franka_sim.limits.checker')
tables = pytest.importorskip('franka_sim.limits.tables')

DT = 0.001
LENGTH = 50  # commands in a stream
RUN = 40  # streams from one start, at rest: 2 s
STREAMS = int(os.environ.get('EMPPI_STREAMS', '2000'))
FR3 = load_robot('fr3')
LOWER, UPPER = np.array(FR3.limits.position.lower), np.array(FR3.limits.position.upper)


def side_by_side(arms: int) -> Robot:
    """Return one robot with the joints of so many FR3s."""
    names = tuple(f'arm{i}_{name}' for i in range(arms) for name in FR3.commanded)
    limits = JointLimits(
        PositionLimits(FR3.limits.position.lower * arms, FR3.limits.position.upper * arms),
        *(row * arms for row in (FR3.limits.velocity, FR3.limits.acceleration)),
        FR3.limits.jerk * arms,
        FR3.limits.effort * arms,
    )
    return dataclasses.replace(
        FR3, joints=names, commanded=names, home=FR3.home * arms, limits=limits
    )


def clamp_each(target: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Clamp as `clamping.clamp` does, the arms (7 joints each) apart."""
    target, lower, upper = (v.reshape(-1, 7) for v in (target, lower, upper))
    bound, size = np.where(target < 0.0, -lower, upper), np.abs(target)
    beyond = size > bound
    share = np.divide(bound, size, out=np.full_like(size, np.inf), where=beyond).min(axis=1)
    some = beyond.any(axis=1)[:, None]
    clamped = np.clip(np.where(some, share[:, None], 1.0) * target, lower, upper)
    return np.where(some, clamped, target).ravel()


class Arms:
    """FR3s that do exactly what the limiter lets through."""

    def __init__(self, position: np.ndarray, velocity: np.ndarray) -> None:
        """Start at positions and constant velocities (N, 7)."""
        self.robot, self.position = side_by_side(len(position)), position.copy()
        zero = np.zeros(position.size)
        self.command = Command(velocity.ravel().copy(), zero, zero)

    def restart(self, which: np.ndarray, position: np.ndarray) -> None:
        """Put some arms elsewhere, at rest."""
        self.position[which] = position[which]
        still = np.repeat(which, 7)
        self.command = Command(*(np.where(still, 0.0, row) for row in self.command))

    def follow(self, target: np.ndarray, noise: np.ndarray | float = 0.0) -> np.ndarray:
        """Return the commands (N, 7) towards targets, positions being measured with noise."""
        target = np.where(np.isfinite(target).all(axis=1)[:, None], target, 0.0)
        measured = (self.position + noise).ravel()
        self.command = jerk_limiter.shape(self.robot, self.command, target.ravel(), measured, DT)
        velocity = self.command.value.reshape(-1, 7)
        self.position += velocity * DT
        return velocity


class Judge:
    """franka-sim's checker in joint velocity mode, for many arms at once."""

    def __init__(self, velocity: np.ndarray) -> None:
        """Start motions at velocities (N, 7)."""
        self.value, self.first = velocity.copy(), np.zeros_like(velocity)
        self.fresh = np.ones(len(velocity), dtype=bool)

    def restart(self, which: np.ndarray) -> None:
        """Start new motions of some arms, from rest."""
        self.value[which], self.fresh[which] = 0.0, True

    def rejects(self, command: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return (N,) whether commands are refused; they are taken as applied all the same."""
        first = (command - self.value) / DT
        second = (first - self.first) / DT
        worst = (np.abs(first) > tables.MAX_JOINT_ACCELERATION[0]) | (
            np.abs(second) > tables.MAX_JOINT_JERK[0]
        )
        start = np.abs(command - self.value) > tables.START_VELOCITY_TOLERANCE
        bad = np.where(self.fresh[:, None], start, worst)
        (low, high), (most, offset, decel) = (
            np.array(rows).T
            for rows in (tables.JOINT_POSITION_LIMITS, tables.POSITION_BASED_VELOCITY_LIMITS)
        )
        less = tables.JOINT_VELOCITY_LIMITS_TOLERANCE[0]
        for sign, room in ((1.0, high - position), (-1.0, position - low)):
            ramp = np.sqrt(np.maximum(0.0, 2.0 * decel * room))
            allowed = np.minimum(most, np.maximum(0.0, ramp - offset)) - less
            bad |= sign * command > np.maximum(0.0, allowed)
        self.value, self.first = command.copy(), np.where(self.fresh[:, None], 0.0, first)
        self.fresh[:] = False
        return bad.any(axis=1) | ~np.isfinite(command).all(axis=1)


class Real:
    """One of franka-sim's own checkers per arm, enforcing."""

    def __init__(self, position: np.ndarray, velocity: np.ndarray) -> None:
        """Start motions."""
        self.checkers = [checker.MotionLimitChecker(enforce=True) for _ in position]
        self.ids = 0
        self.restart(np.ones(len(position), dtype=bool), position, velocity)

    def restart(self, which: np.ndarray, position: np.ndarray, velocity: np.ndarray) -> None:
        """Start new motions of some arms."""
        for i in np.flatnonzero(which):
            state = {'q_d': list(position[i]), 'dq_d': list(velocity[i])}
            self.checkers[i].start_motion(modes.ControlMode.VELOCITY, state)

    def rejects(self, command: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return (N,) whether commands are refused."""
        self.ids += 1
        return np.array(
            [
                not one.absorb_command(
                    {'message_id': self.ids, 'dq_c': list(dq)}, q, fresh=True, enforce=True
                ).accepted
                for one, dq, q in zip(self.checkers, command, position, strict=True)
            ]
        )


def somewhere(rng: np.random.Generator, arms: int) -> np.ndarray:
    """Return positions (N, 7) within the limits, a third of the joints near an end stop."""
    anywhere = rng.uniform(LOWER, UPPER, (arms, 7))
    near = np.where(
        rng.random((arms, 7)) < 0.5,
        LOWER + rng.exponential(0.05, (arms, 7)),
        UPPER - rng.exponential(0.05, (arms, 7)),
    )
    return np.where(rng.random((arms, 7)) < 0.33, np.clip(near, LOWER, UPPER), anywhere)


def size(rng: np.random.Generator, arms: int) -> np.ndarray:
    """Return speeds (N, 1) [rad/s] of every order, a third of them beyond all limits."""
    return np.exp(rng.uniform(np.log(1e-4), np.log(50.0), (arms, 1)))


def targets(rng: np.random.Generator, drift: np.ndarray) -> np.ndarray:
    """Return a stream (LENGTH, N, 7) for each arm; a row that is not finite says: brake."""
    arms = len(drift)
    a, b = (rng.normal(0.0, 1.0, (arms, 7)) * size(rng, arms) for _ in range(2))
    time = np.arange(LENGTH)[:, None, None]
    since = rng.integers(0, LENGTH, (arms, 1))
    until = since + rng.integers(1, LENGTH, (arms, 1))
    share = time / LENGTH
    odd = np.where(rng.random((arms, 7)) < 0.3, rng.choice([np.nan, np.inf, -np.inf, 1e308]), a)
    kinds = (
        lambda: a + 0.0 * time,  # a step
        lambda: rng.normal(0.0, 1.0, (LENGTH, arms, 7)) * size(rng, arms),  # noise
        lambda: drift + 0.0 * time,  # on, to the end stops
        lambda: np.where((time >= since) & (time < until), odd, drift),  # a burst of NaN
        lambda: np.where(time >= since, np.nan, drift),  # brake at any moment
        lambda: np.where(time >= since, -drift, drift),  # turn round
        lambda: (1.0 - share) * a + share * b,  # a ramp
        lambda: drift + rng.normal(0.0, 0.05, (LENGTH, arms, 7)),  # a planner's unrest
    )
    kind = np.where(rng.random(arms) < 0.5, 2, rng.integers(len(kinds), size=arms))
    return np.choose(kind[:, None], [make() for make in kinds])


def test_many_arms_at_once_are_each_what_the_limiter_makes_of_it(monkeypatch) -> None:
    """Bit by bit; braking by None, by NaN and by zero are the same."""
    rng, arms = np.random.default_rng(0), 12
    many = Arms(somewhere(rng, arms), np.zeros((arms, 7)))
    ones = [jerk_limiter.at_rest(FR3, many.position[i]) for i in range(arms)]
    drift = rng.normal(0.0, 1.0, (arms, 7)) * size(rng, arms)
    for _ in range(6):
        for target in targets(rng, drift):
            for i, row in enumerate(target):
                wanted = None if np.isnan(row).all() else row
                ones[i] = jerk_limiter.shape(FR3, ones[i], wanted, many.position[i], DT)
            with monkeypatch.context() as patch:
                patch.setattr(velocity_bounds, 'clamp', clamp_each)
                found = many.follow(target)
            assert np.array_equal(found, [one.value for one in ones])


def test_the_checks_of_many_arms_are_the_checker_s_own() -> None:
    """Motions that break each limit, one after the other: both find the same first commands."""
    rng, arms = np.random.default_rng(1), 200
    start = somewhere(rng, arms)
    velocity = rng.normal(0.0, 1.0, (arms, 7)) * rng.choice([0.01, 1.0], (arms, 1))
    both = Judge(velocity), Real(start, velocity)
    position, acceleration, alive = start.copy(), np.zeros((arms, 7)), np.ones(arms, dtype=bool)
    jerk = rng.choice([100.0, 2000.0, 5500.0], (arms, 1))
    ends = []
    for step in range(300):
        mine, theirs = (one.rejects(velocity, position) for one in both)
        assert np.array_equal(mine[alive], theirs[alive])
        ends += [step] * int(theirs[alive].sum())
        alive &= ~theirs
        acceleration += DT * jerk * rng.choice([-1.0, 1.0], (arms, 7))
        velocity = velocity + DT * acceleration
        position = position + DT * velocity
    # at the start, on the way, and never: all were seen
    assert ends.count(0) > 10 and len(ends) > ends.count(0) + 10 and alive.sum() > 10


class Run(NamedTuple):
    """What became of the streams."""

    streams: int
    rejected: int
    fastest: float  # rad/s
    nearest: float  # rad, to an end stop of the checker's


def run(seed: int, arms: int, blocks: int, real: bool) -> Run:
    """Send random streams through the limiter, and its commands to the checker."""
    rng = np.random.default_rng(seed)
    everyone, still = np.ones(arms, dtype=bool), np.zeros((arms, 7))
    many = Arms(somewhere(rng, arms), still)
    judge = Real(many.position, still) if real else Judge(still)
    low, high = np.array(tables.JOINT_POSITION_LIMITS).T
    rejected, fastest, nearest = 0, 0.0, np.inf
    for block in range(blocks):
        if block % RUN == 0:
            many.restart(everyone, somewhere(rng, arms))
            judge.restart(everyone, *((many.position, still) if real else ()))
            drift = rng.normal(0.0, 1.0, (arms, 7)) * size(rng, arms)
            noise = np.where(rng.random((arms, 1)) < 0.5, 1e-4, 0.0)
        bad = np.zeros(arms, dtype=bool)
        for target in targets(rng, drift):
            before = many.position.copy()
            command = many.follow(target, noise * rng.standard_normal((arms, 7)))
            bad |= judge.rejects(command, before)
        rejected += int(bad.sum())
        fastest = max(fastest, float(np.abs(many.command.value).max()))
        nearest = min(nearest, float(np.minimum(many.position - low, high - many.position).min()))
    return Run(arms * blocks, rejected, fastest, nearest)


@pytest.mark.parametrize('real', [True, False], ids=['franka-sim', 'many'])
def test_the_checker_rejects_nothing_that_the_limiter_lets_through(monkeypatch, real) -> None:
    monkeypatch.setattr(velocity_bounds, 'clamp', clamp_each)
    arms = 25 if real else min(500, max(25, STREAMS // RUN))
    blocks = 2 * RUN if real else -(-STREAMS // arms)
    found = run(2, arms, blocks, real)
    print(f'\n{found}')
    assert found.rejected == 0
    assert found.fastest > 2.0 and found.nearest < 0.1  # it was tried near the limits


@pytest.mark.parametrize(
    ('name', 'value'), [('JERK_FACTOR', 1.1), ('_enveloped', lambda *_: 9.0), ('_RAMPS', 0.0)]
)
def test_a_limiter_that_is_too_loose_is_rejected(monkeypatch, name: str, value: object) -> None:
    """The teeth of the test above: too much jerk, no envelope, braking that begins too late."""
    monkeypatch.setattr(velocity_bounds, 'clamp', clamp_each)
    monkeypatch.setattr(velocity_bounds, name, value)
    assert run(2, 50, RUN, real=False).rejected > 0


def legal_targets(
    rng: np.random.Generator, velocity: np.ndarray, most: float, every: int
) -> np.ndarray:
    """
    Return smooth speeds (LENGTH, N, 7) from given ones, held for a moment.

    Acceleration goes straight from one random value within `most` [rad/s^2] to the next `every`
    ms, so that jerk stays within 2 most / every.
    """
    knots = rng.uniform(-most, most, (LENGTH // every + 2, *velocity.shape))
    extreme = rng.random(knots.shape)
    knots = np.where(extreme < 0.2, 0.0, np.where(extreme > 0.8, np.sign(knots) * most, knots))
    knots[0] = 0.0
    place, share = np.divmod(np.arange(LENGTH), every)
    share = share[:, None, None] / every
    acceleration = (1.0 - share) * knots[place] + share * knots[place + 1]
    return velocity + DT * np.cumsum(acceleration, axis=0)


class Passed(NamedTuple):
    """How many legal streams came out of the limiter as they went in."""

    legal: int  # streams that the checker accepts
    late: int  # changed by a delay at most
    exactly: int  # not even by that


# The limiter goes to each target as to one that stays: it lets go of the acceleration on the way,
# which takes a / j = 5 ms. A joint that turns round does so twice, through rest.
DELAY = 10  # ms
SAME = 1e-3  # rad/s, libfranka's kLimitEps


def passed(rng: np.random.Generator, arms: int, most: float, every: int, ours: bool) -> Passed:
    """Count legal streams that pass; `ours`: among those that our braking distances allow."""
    position = rng.uniform(LOWER, UPPER, (arms, 7))
    low, high = velocity_bounds.velocity_bounds(FR3, position, DT)
    if not ours:
        bounds = checker.lower_joint_velocity_limits, checker.upper_joint_velocity_limits
        low, high = (np.array([limits(q) for q in position]) for limits in bounds)
    velocity = rng.uniform(low, high)
    stream = legal_targets(rng, velocity, most, every)
    judge, legal = Judge(velocity), np.ones(arms, dtype=bool)
    where = position.copy()
    for row in stream:
        legal &= ~judge.rejects(row, where)
        if ours:
            low, high = velocity_bounds.velocity_bounds(FR3, where, DT)
            legal &= ((row >= low) & (row <= high)).all(axis=1)
        where = where + DT * row
    many = Arms(position, velocity)
    found = np.array([many.follow(row) for row in stream])
    before = np.concatenate([np.broadcast_to(velocity, (DELAY, arms, 7)), stream])
    window = np.lib.stride_tricks.sliding_window_view(before, DELAY + 1, axis=0)
    late = (found >= window.min(axis=-1) - SAME) & (found <= window.max(axis=-1) + SAME)
    exactly = np.abs(found - stream) <= SAME
    kinds = (kind.all(axis=(0, 2)) & legal for kind in (late, exactly))
    return Passed(int(legal.sum()), *(int(kind.sum()) for kind in kinds))


def test_what_is_legal_and_within_what_is_used_passes(monkeypatch) -> None:
    """At most 1 % of commands are rejected wrongly; the unused share of limits is printed."""
    monkeypatch.setattr(velocity_bounds, 'clamp', clamp_each)
    rng, arms = np.random.default_rng(3), 500
    told = min(STREAMS, 10_000)
    for words, streams, *limits in (
        ('beyond our acceleration and jerk', told, 9.99, 4, False),  # of 10 and 5000
        ('beyond our braking distances', told, 5.0, 10, False),
        ('within all that we use', STREAMS, 5.0, 10, True),
    ):
        rows = [passed(rng, arms, *limits) for _ in range(-(-streams // arms))]
        found = Passed(*(sum(column) for column in zip(*rows, strict=True)))
        share = found.late / found.legal
        print(f'\n{words}: {found}, {share:.2%} pass')
    assert found.legal > 0.3 * len(rows) * arms
    assert share >= 0.99
