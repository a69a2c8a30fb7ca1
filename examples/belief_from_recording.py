"""Estimate parameters from recorded data, offline: joint states, object poses and commands."""

import os

import numpy as np

import emppi_ros as emppi
from emppi_ros.state.time_series import TimeSeries

task = emppi.load_task('panda_push')
# The recording: replace it by your own data. Stamps are in seconds, quaternions are wxyz.
trace = emppi.ClosedLoop(task, seed=0).run(float(os.environ.get('DURATION_S', '6')))
joints = [(r.stamp, r.position, r.velocity) for r in trace.readings]  # (n,), (n,)
poses = [(r.stamp, r.name, r.pose) for r in trace.poses]  # position (3,), quaternion (4,)
commands = TimeSeries('commands', span_s=np.inf, reach_s=np.inf)  # each holds until the next
for stamp, values in trace.commands:  # (joints,)
    commands.append(stamp, values)

estimator = emppi.Estimator(task)
belief = emppi.ParticleFilter(task, np.random.default_rng(0))
row = 0
for stamp, name, measured in poses:
    while row < len(joints) and joints[row][0] <= stamp + 0.01:
        estimator.add_joints(*joints[row])
        row += 1
    pose = estimator.add_pose(name, stamp, measured)
    belief.observe(stamp, estimator.observation(stamp, name, pose), commands)

weights, theta = np.exp(belief.belief.log_weights), belief.belief.theta
for parameter, truth, mean in zip(task.parameters, trace.truth, weights @ theta, strict=True):
    print(f'{parameter.name}: {mean:.3f} {parameter.unit}, truth {truth:.3f}')
