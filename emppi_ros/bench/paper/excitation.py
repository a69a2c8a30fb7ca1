"""
Filtering without control: a robot that is moved at random, and a belief that watches.

This is what calibration is measured with. The true values are drawn from the prior itself,
for only then must a 90 % interval hold 90 % of them.
"""

import numpy as np
import numpy.typing as npt

from emppi_ros.belief.particles import Belief
from emppi_ros.session.particle_filter import Filter
from emppi_ros.session.trace import Trace
from emppi_ros.sim.simulated_robot import SimulatedRobot
from emppi_ros.state.estimator import Estimator
from emppi_ros.state.time_series import TimeSeries
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
DURATION_S = 2.0
RATE_HZ = 100.0  # of commands
SHARE = 0.3  # of the limits: a cart stays on its rail
WAVES, LOWEST_HZ, HIGHEST_HZ = 4, 0.5, 3.0


def excite(task: Task, seed: int) -> tuple[Trace, Belief]:
    """Return what was learned of a robot under random smooth commands, and the prior."""
    (truth,) = task.prior.sample(1, np.random.default_rng([seed, 0]))
    trace, robot = Trace(truth), SimulatedRobot(task, truth, seed)
    belief = Filter(task, np.random.default_rng([seed, 2]))
    before = belief.belief
    dt, duration = task.simulation.timestep_s, min(DURATION_S, task.file.duration_s)
    plan = commands(task, np.random.default_rng([seed, 3]), duration)
    applied, estimator = TimeSeries('applied commands', reach_s=np.inf), Estimator(task)
    every = {
        'reading': max(1, round(1.0 / task.simulation.joint_state_rate_hz / dt)),
        'command': max(1, round(1.0 / RATE_HZ / dt)),
        'update': max(1, round(task.belief.interval_s / dt)),
    }
    for step in range(round(duration / dt)):
        now = robot.time
        if step % every['reading'] == 0:
            reading = robot.read_joints()
            estimator.add_joints(reading.stamp, reading.position, reading.velocity)
        if step % every['update'] == 0:
            update = belief.observe(now, estimator.observation(now), applied.hold)
            if update is not None:
                trace.degenerate += update.reinjected
                trace.beliefs.append((now, belief.belief))
        if step % every['command'] == 0:
            command = plan[step // every['command']]
            robot.command(command)
            applied.append(now, command)
        robot.step()
    return trace, before


def commands(task: Task, rng: np.random.Generator, duration_s: float) -> Array:
    """
    Return commands (n, joints) at RATE_HZ: for each joint a sum of cosines, random but smooth.

    Cosines start without phase: a cart that a force moves then swings about its start
    instead of drifting away from it.
    """
    limits = task.robot.control_limits(task.planner.step_s)
    count = len(task.robot.commanded)
    times = np.arange(int(duration_s * RATE_HZ) + 1) / RATE_HZ
    frequency = rng.uniform(LOWEST_HZ, HIGHEST_HZ, (WAVES, count))
    size = rng.standard_normal((WAVES, count)) / np.sqrt(WAVES)
    waves = size * np.cos(2.0 * np.pi * frequency * times[:, None, None])  # (n, WAVES, joints)
    centre, reach = 0.5 * (limits.upper + limits.lower), 0.5 * (limits.upper - limits.lower)
    return np.clip(centre + SHARE * reach * waves.sum(axis=1), limits.lower, limits.upper)
