"""Why parts are not found in an image: the likely cause, with numbers."""

from collections.abc import Sequence

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.pose import Poses
from emppi_ros.tracking.fitting import FAR, FEWEST_PIXELS, RIGHT, TrackedParts
from emppi_ros.tracking.renderer import Window
from emppi_ros.tracking.tracker import clusters

FEW = 0.1  # share of pixels, below which a background is elsewhere
_NEAR_M = 0.005  # or noise: how far pixels of the background may be from it
_UNIT = 20.0  # factor by which depths are in another unit


def explain_losses(
    tracked: TrackedParts, names: Sequence[str], poses: Poses, image: Array
) -> list[str]:
    """
    Return a sentence for each part that says why it is not found.

    `image` (h, w) has depths [m], as `TrackedParts.prepare` returns it, and `poses` (B) are those
    from which the parts were searched.
    """
    tracked.renderer.place(poses)
    rendered = tracked.renderer.render()
    behind = tracked.background.crop(Window(0, image.shape[0], 0, image.shape[1]))
    expected = np.minimum(rendered.depth, behind)
    known = np.isfinite(image) & (image != FAR)
    both, cause = known & np.isfinite(expected), ''
    share, distance = compare_background(tracked, image)
    if not known.any():
        cause = 'the image has no depths'
    elif both.any() and not 1.0 / _UNIT < np.median(image[both] / expected[both]) < _UNIT:
        cause = (
            f'depths are {np.median(image[both]):.4g} m (median), where camera pose and scene say '
            f'{np.median(expected[both]):.4g} m: check their unit (metres; depth_scale_m of '
            'camera.yaml, or the encoding)'
        )
    elif share < FEW:
        cause = (
            f'{100.0 * share:.1f} % of the background are within {1e3 * _NEAR_M:.0f} mm, or '
            f'noise, of where camera pose and scene say, and half of it is {1e3 * distance:.1f} '
            'mm away or more: check the camera pose'
        )
    if cause:
        return [cause] * len(names)
    front = tracked.is_foreground(image, behind)
    things = np.reshape([cluster.centre for cluster in clusters(tracked, front, image)], (-1, 3))
    sentences = []
    for part, (name, place) in enumerate(zip(names, poses.position, strict=True)):
        shape, own = tracked.shapes[part], known & (rendered.part == part)
        far = np.linalg.norm(things - place - poses.rotation[part] @ shape.centre, axis=1)
        text = f'{name} is searched from {np.round(place, 3).tolist()} m, and '
        if not len(far):
            text += 'nothing is in front of the background: check whether it is in the image'
        elif far.min() > 2.0 * shape.radius or own.sum() < FEWEST_PIXELS:
            nearest = np.round(things[np.argmin(far)], 3).tolist()
            text += (
                f'the nearest thing in front of the background is {far.min():.3f} m away, at '
                f'{nearest} m: check its first pose (position, quaternion), or give a larger '
                'reach_m'
            )
        else:
            off = np.median(np.abs(image - rendered.depth)[own])
            sd = np.median(tracked.noise(rendered.depth[own], part))
            text += (
                f'depths there are {1e3 * off:.1f} mm from those of its shape (median of '
                f'{int(own.sum())} px), with a noise of {1e3 * sd:.1f} mm: check its shape and '
                'its first pose, or give a larger noise_sd_per_m'
            )
        sentences.append(text)
    return sentences


def compare_background(tracked: TrackedParts, image: Array) -> tuple[float, float]:
    """Return the share of the background that is where the scene says, and its error [m]."""
    behind = tracked.background.crop(Window(0, image.shape[0], 0, image.shape[1]))
    error = np.abs(image - behind)
    shown = np.isfinite(error) & (image != FAR)
    if not shown.any():  # nothing is known about what is behind the parts
        return np.nan, np.nan
    near = error < np.maximum(RIGHT * tracked.noise(behind), _NEAR_M)
    return float(near[shown].mean()), float(np.median(error[shown]))
