"""
Check that a URDF agrees with the robot's YAML file, and take the tighter limits of both.

The URDF comes from a topic and is not trusted: it is parsed as a stream, without building a tree,
and a DOCTYPE is refused, which excludes entities that expand.
"""

from collections.abc import Iterator
import dataclasses
from dataclasses import dataclass
from typing import NamedTuple
import xml.etree.ElementTree as ET

from emppi_ros.core.config import finite
from emppi_ros.core.errors import ConfigError, unknown
from emppi_ros.robots.robot import Robot

MAX_CHARACTERS = 10_000_000
TOLERANCE = 1e-3  # rad or m, and per second: two files may round differently
_MOVING = ('revolute', 'prismatic')
_LIMITS = {  # words for a limit, and the sign of a looser one
    'lower': ('position down to', -1.0),
    'upper': ('position up to', 1.0),
    'velocity': ('velocity up to', 1.0),
}
_DEEPEST = 100
_CHUNK = 1 << 16  # characters parsed at a time
_JOINT_DEPTH = 2  # <robot><joint>; joints in <transmission> and <ros2_control> are deeper


@dataclass(frozen=True)
class UrdfCheck:
    """What a URDF says about a robot; iterates over the contradictions."""

    problems: list[str]  # contradictions, one sentence each
    tighter: list[str]  # limits that are tighter in the URDF
    robot: Robot  # with the tighter limits of both

    def __iter__(self) -> Iterator[str]:
        """Return the contradictions, one sentence each."""
        return iter(self.problems)


class _Joint(NamedTuple):
    kind: str
    limit: dict[str, str] | None  # as written


class _Reader:
    """Parser target that collects the joints."""

    def __init__(self) -> None:
        self.joints: dict[str, _Joint] = {}
        self.duplicates: list[str] = []
        self._depth, self._root, self._inside = 0, '', ''

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError(f'its elements are nested deeper than {_DEEPEST}')
        if self._depth == 1:
            self._root = tag
        elif self._depth == _JOINT_DEPTH and tag == 'joint':
            self._inside = attributes.get('name', '')
            if self._inside in self.joints:
                self.duplicates.append(self._inside)
            self.joints[self._inside] = _Joint(attributes.get('type', ''), None)
        elif self._depth == _JOINT_DEPTH + 1 and tag == 'limit' and self._inside:
            self.joints[self._inside] = self.joints[self._inside]._replace(limit=attributes)

    def end(self, _tag: str) -> None:
        if self._depth == _JOINT_DEPTH:
            self._inside = ''
        self._depth -= 1

    def close(self) -> '_Reader':
        if self._root != 'robot':
            raise ValueError(f'it must begin with <robot>, not <{_clip(self._root)}>')
        return self


def check(robot: Robot, text: str) -> UrdfCheck:
    """Compare a URDF with the robot."""
    try:
        reader = _read(text)
    except ValueError as error:
        return UrdfCheck([str(error)], [], robot)
    limits = robot.limits
    rows = {
        'lower': list(limits.position.lower),
        'upper': list(limits.position.upper),
        'velocity': list(limits.velocity),
    }
    problems, tighter = list[str](), list[str]()
    for i, name in enumerate(robot.commanded_names):
        if name in reader.duplicates:
            problems.append(f'the URDF has joint {name!r} more than once')
            continue
        if name not in reader.joints:
            known = _clip(unknown('joint', name, reader.joints))
            problems.append(f'the URDF lacks a joint: {known}')
            continue
        written, wrong = _read_limits(name, reader.joints[name])
        problems += wrong
        for key, theirs in written.items():
            words, sign = _LIMITS[key]
            if sign * (rows[key][i] - theirs) > TOLERANCE:
                allowed = f'a {words} {rows[key][i]:g}, the URDF only {theirs:g}'
                tighter.append(f'joint {name!r}: robot {robot.name!r} allows {allowed}')
                rows[key][i] = theirs
    if tighter and not problems:
        position = dataclasses.replace(
            limits.position, lower=tuple(rows['lower']), upper=tuple(rows['upper'])
        )
        limits = dataclasses.replace(limits, position=position, velocity=tuple(rows['velocity']))
        try:
            robot = dataclasses.replace(robot, limits=limits)
        except ConfigError as error:
            problems.append(
                f'with the tighter limits of the URDF robot {robot.name!r} has {error}'
            )
    return UrdfCheck(problems, tighter, robot)


def _read(text: str) -> _Reader:
    """Return the joints of a URDF; ValueError says why it cannot be read."""
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f'the URDF has {len(text)} characters; at most {MAX_CHARACTERS} are read')
    if '<!DOCTYPE' in text:
        raise ValueError('the URDF has a DOCTYPE, which is refused: remove it')
    try:
        parser = ET.XMLParser(target=_Reader())
        for begin in range(0, len(text), _CHUNK):
            parser.feed(text[begin : begin + _CHUNK])
        reader: _Reader = parser.close()  # type: ignore[assignment]  # the target's result
    except (ET.ParseError, ValueError) as error:  # ValueError: half a surrogate pair
        raise ValueError(f'the URDF cannot be read: {_clip(str(error))}') from None
    return reader


def _read_limits(name: str, joint: _Joint) -> tuple[dict[str, float], list[str]]:
    """Return the limits of a joint by key of `_LIMITS`, and what is wrong with the joint."""
    endless = joint.kind == 'continuous'
    if joint.kind not in _MOVING and not endless:
        kind = _clip(joint.kind) or 'of no type'
        return {}, [f'joint {name!r} is {kind} in the URDF; expected {" or ".join(_MOVING)}']
    if joint.limit is None:
        return {}, [] if endless else [f'joint {name!r} has no <limit> in the URDF']
    written = {'lower': '0', 'upper': '0', 'velocity': '', **joint.limit}  # URDF's defaults
    limits, problems = dict[str, float](), list[str]()
    for key in ('velocity',) if endless else _LIMITS:
        try:
            limits[key] = finite(written[key])
        except ValueError:
            text = f'limit {key}={_clip(repr(written[key]))} in the URDF'
            problems.append(f'joint {name!r} has {text}; expected a finite number')
    return limits, problems


def _clip(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + '...'
