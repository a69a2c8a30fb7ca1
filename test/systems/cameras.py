"""Cameras that look at something."""

import numpy as np

from emppi_ros.tracking import camera


def looking_at(width, height, fovy_deg, position, target=(0.0, 0.0, 0.0)):
    """Return a camera at a place whose middle shows a target, with the world's z upwards."""
    ahead = np.subtract(target, position)
    ahead /= np.linalg.norm(ahead)
    right = np.cross(ahead, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    matrix = np.column_stack([right, np.cross(ahead, right), ahead])
    return camera.at(width, height, fovy_deg, np.array(position), matrix)
