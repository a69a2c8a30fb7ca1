"""Infer the joint of a door from its poses over time."""

import numpy as np

import emppi_ros as emppi
from emppi_ros.articulation import mjcf, tracks

# The tracks: replace them by a table of `emppi track`, a bag, or the result of `emppi.track`.
rng = np.random.default_rng(0)
angle = np.linspace(0.0, 1.2, 80)
zero = np.zeros_like(angle)
position = 0.6 * np.stack([np.cos(angle), np.sin(angle), zero], axis=-1)
quaternion = np.stack([np.cos(angle / 2), zero, zero, np.sin(angle / 2)], axis=-1)
noisy = position + 0.002 * rng.standard_normal(position.shape)
door = tracks.from_arrays('door', noisy, quaternion)

tree = emppi.articulate(tracks.Tracks(angle, (door,)))
joint = tree.joint('door')
print(f'{joint.child} on {joint.parent}: {joint.kind}, axis {joint.model.axis.round(2) + 0.0}')
print(f'its axis has a standard deviation of {np.degrees(joint.axis_sd_rad):.2f} degrees')
print(f'its model has {len(mjcf.to_text(tree).splitlines())} lines of MJCF')
