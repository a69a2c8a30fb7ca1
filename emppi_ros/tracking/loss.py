"""Why parts are not found in an image: the likely cause, with numbers."""

from collections.abc import Sequence

import numpy as np
from scipy import ndimage

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.pose import Poses
from emppi_ros.tracking.fitting import FAR, FEWEST_PIXELS, RIGHT, TrackedParts
from emppi_ros.tracking.renderer import NOTHING, Window

_UNIT = 20.0  # factor by which depths are in another unit
_NEAR_M, _FEW = 0.005, 0.1  # of a background, which is elsewhere if few pixels are near it


def explain_losses(
    tracked: TrackedParts, names: Sequence[str], poses: Poses, image: Array
) -> list[str]:
    """
    Return a sentence for each part that says why it is not found at a pose.

    `image` (h, w) has depths [m], as `TrackedParts.prepare` returns it, and `poses` (B) are those
    from which the parts were searched.
    """
    behind = tracked.background.crop(Window(0, image.shape[0], 0, image.shape[1]))
    tracked.renderer.place(poses)
    rendered = tracked.renderer.render()
    expected = np.minimum(rendered.depth, behind)
    known = np.isfinite(image) & (image != FAR)
    if not known.any():
        return ['the image has no depths'] * len(names)
    both = known & np.isfinite(expected)
    ahead = tracked.camera.project(poses.position)[:, 2]
    scene = float(np.median(expected[both]) if both.any() else np.mean(ahead))
    found = float(np.median(image[both if both.any() else known]))
    if not 1.0 / _UNIT < found / scene < _UNIT:
        text = (
            f'depths are {found:.4g} m (median), where camera pose and scene say {scene:.4g} m: '
            'check their unit (metres; depth_scale_m of camera.yaml, or the encoding)'
        )
        return [text] * len(names)
    beside = both & (rendered.part == NOTHING)
    error, near = _beside(tracked, image, beside)
    if len(near) and near.mean() < _FEW:
        text = (
            f'of {len(near)} px beside the parts {100.0 * near.mean():.1f} % are within '
            f'{1e3 * _NEAR_M:.0f} mm, or noise, of where camera pose and scene say, and half of '
            f'them {1e3 * np.median(error):.1f} mm away or more: check the camera pose'
        )
        return [text] * len(names)
    centres = poses.position + np.array(
        [turn @ one.centre for turn, one in zip(poses.rotation, tracked.shapes, strict=True)]
    )
    things = _things(tracked, image, tracked.is_foreground(image, behind))
    sentences = []
    for part, centre in enumerate(centres):
        own = known & (rendered.part == part)
        far = np.linalg.norm(things - centre, axis=1)
        radius = tracked.shapes[part].radius
        at = ', '.join(f'{value:.3f}' for value in poses.position[part])
        if len(far) and far.min() < 2.0 * radius and own.sum() >= FEWEST_PIXELS:
            off = float(np.median(np.abs(image[own] - rendered.depth[own])))
            sd = float(np.median(tracked.noise(rendered.depth[own], part)))
            sentences.append(
                f'depths of {names[part]} are {1e3 * off:.1f} mm from those of its shape '
                f'(median of {int(own.sum())} px), with a noise of {1e3 * sd:.1f} mm: check its '
                'shape and its first pose, or give a larger noise_sd_per_m'
            )
        elif len(far):
            place = ', '.join(f'{value:.3f}' for value in things[np.argmin(far)])
            sentences.append(
                f'{names[part]} starts at ({at}) m, and the nearest thing in front of the '
                f'background is {far.min():.3f} m away, at ({place}) m: check its first pose '
                '(position, quaternion), or give a larger reach_m'
            )
        else:
            sentences.append(
                f'{names[part]} starts at ({at}) m, and nothing is in front of the background: '
                'check the camera pose, and whether the part is in the image'
            )
    return sentences


def shows_background(tracked: TrackedParts, image: Array) -> bool:
    """Return whether what is behind the parts is where camera pose and scene say."""
    near = _beside(tracked, image, np.isfinite(image) & (image != FAR))[1]
    return bool(len(near) and near.mean() >= _FEW)


def _beside(tracked: TrackedParts, image: Array, pixels: Bools) -> tuple[Array, Bools]:
    """Return errors (n,) of the background at some pixels [m], and whether they are small."""
    behind = tracked.background.crop(Window(0, image.shape[0], 0, image.shape[1]))
    pixels = pixels & np.isfinite(behind)
    error = np.abs(image[pixels] - behind[pixels])
    return error, error < np.maximum(RIGHT * tracked.noise(behind[pixels]), _NEAR_M)


def _things(tracked: TrackedParts, image: Array, front: Bools) -> Array:
    """Return the medians (n, 3) of clusters of points in front of the background [m]."""
    labels, count = ndimage.label(front)
    sizes = np.bincount(labels.ravel(), minlength=count + 1)
    medians = []
    for label in 1 + np.flatnonzero(sizes[1:] >= FEWEST_PIXELS):
        own = labels == label
        medians.append(np.median(tracked.rays[own] * image[own][:, None], axis=0))
    return np.reshape(medians, (-1, 3)) + np.array(tracked.camera.position)
