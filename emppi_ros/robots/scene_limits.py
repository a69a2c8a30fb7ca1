"""Compare home and position limits of a robot with the ranges of its joints in the scene."""

from collections.abc import Iterator, Sequence
import math
from typing import NamedTuple

import mujoco

from emppi_ros.core.errors import SceneError
from emppi_ros.model import scene
from emppi_ros.robots.robot import Robot

TOLERANCE = 1e-3  # rad or m: files round differently
_EXCESS = 0.05  # of the scene's range: limits of models and of data sheets differ by 3 %
_TURN = 2.0 * math.pi + 0.1  # rad: limits of hinges beyond it are probably degrees
_SAME, _SIMILAR = 1.03, 2.0  # ratio of a factor and 180 / pi; the latter for homes out of range


class _Ranges(NamedTuple):
    """What scene and robot say about a joint, whose range is limited in the scene."""

    joint: str
    hinge: bool
    scene: tuple[float, float]
    robot: tuple[float, float] | None  # None: not commanded
    home: float

    def __str__(self) -> str:
        """Return both, with numbers."""
        limits = f', and the robot has limits {_text(self.robot)}' if self.robot else ''
        return f'{self.joint!r} has range {_text(self.scene)} in the scene{limits}'


def check(robot: Robot, model: mujoco.MjModel) -> None:
    """Raise SceneError if home is out of a joint's range, or a file has degrees for radians."""
    for ranges in _limited(robot, model):
        low, high = ranges.scene
        outside = not low - TOLERANCE <= ranges.home <= high + TOLERANCE
        remedy = _degrees(ranges, _SIMILAR if outside else _SAME)
        if outside:
            remedy = remedy or 'correct `home`, or the range of the joint in the scene'
            raise SceneError(
                f'home: {ranges.home:g} of {ranges.joint!r} is outside of its range '
                f'{_text(ranges.scene)} in the scene'
                + (f' (limits of the robot: {_text(ranges.robot)})' if ranges.robot else '')
                + f': {remedy}'
            )
        if remedy:
            raise SceneError(f'limits: position: {ranges}: {remedy}')


def explain(robot: Robot, model: mujoco.MjModel) -> list[str]:
    """Return one sentence for each joint that the robot may move out of its range."""
    sentences = []
    for ranges in _limited(robot, model):
        (low, high), limits = ranges.scene, ranges.robot
        if limits and max(low - limits[0], limits[1] - high) > _EXCESS * (high - low):
            sentences.append(
                f'robot: limits: position: {ranges}: in plans, the joint stops at the end of its '
                'range in the scene; give the same range in both files'
            )
    return sentences


def _limited(robot: Robot, model: mujoco.MjModel) -> Iterator[_Ranges]:
    position = robot.limits.position
    limits = dict(
        zip(robot.commanded, zip(position.lower, position.upper, strict=True), strict=True)
    )
    for name, home in zip(robot.joints, robot.home, strict=True):
        joint = scene.find(model, 'joint', name)
        if model.jnt_limited[joint]:
            low, high = model.jnt_range[joint].tolist()
            hinge = bool(model.jnt_type[joint] == scene.HINGE)
            yield _Ranges(name, hinge, (low, high), limits.get(name), home)


def _degrees(ranges: _Ranges, ratio: float) -> str:
    """Return the remedy if both ranges of a hinge differ by about 180 / pi; '' otherwise."""
    if not ranges.hinge or ranges.robot is None:
        return ''
    # 0 is 0 in both units
    factors = [a / b for a, b in zip(ranges.robot, ranges.scene, strict=True) if a and b]
    if _near(factors, math.degrees(1.0), ratio):
        if max(map(abs, ranges.robot)) > _TURN:
            return 'degrees? Limits and `home` of robots are in radians, or write `!degrees 30`'
        return (
            'degrees? The scene lacks angle="radian" in its <compiler>: MuJoCo reads its angles '
            'as degrees'
        )
    if _near(factors, math.radians(1.0), ratio):
        return 'degrees? The scene gives them with angle="radian" in its <compiler>: remove it'
    return ''


def _near(factors: Sequence[float], expected: float, ratio: float) -> bool:
    return bool(factors) and all(1.0 / ratio < f / expected < ratio for f in factors)


def _text(limits: tuple[float, float]) -> str:
    return f'{limits[0]:.4g} to {limits[1]:.4g}'
