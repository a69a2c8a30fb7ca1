"""
Films of levers on a table that a simulated Panda pushes with a rod.

The arm holds the rod straight down, and pushes one lever after the other at its side. Its drives
are told velocities of the joints, and yield as those of the tasks do. Nothing is recorded but
images.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import mujoco
import numpy as np

from benchmarks.video import films
from benchmarks.video.films import RATE_HZ, Film
from benchmarks.video.mechanisms import FilmedMechanism
from emppi_ros.core import paths
from emppi_ros.core.arrays import Array
from emppi_ros.core.pose import Poses
from emppi_ros.model import scene
from emppi_ros.robots.robot import load_robot
from emppi_ros.sim.depth_camera import add_noise
from emppi_ros.tracking import camera
from emppi_ros.tracking.renderer import SceneRenderer, body_poses

ARM = paths.ASSETS / 'panda.xml'
ROBOT = 'robot_'  # before the names of the arm
TABLE = 'friction'
SECONDS = 15.0
CHANGED_S = 6.0  # later, rounding errors would have grown in one contact after the other
FRICTION = 0.2, 0.6  # of the levers on the table: range of the truth
_ROD_M = 0.1  # by which the rod is longer than in the tasks, so that fingers stay above levers
_LOW_M, _HIGH_M = 0.006, 0.14  # heights of the tip of the rod above the table
_ABOVE_M = 0.1  # nothing of a lever is so high: 21 mm, or four standard deviations of depths
_CLEAR_M, _FREE_M = 0.035, 0.03  # of the rod's axis, before a push: from its lever, and others
_PUSH_M = 0.08, 0.14  # way of a push behind the clearance
_FAST, _SLOW = 0.7, (0.15, 0.3)  # m/s, over the table and in a push
_PLACE = np.array([0.58, 0.0])  # where pushed levers are to stay, in front of the arm
_REACH_M = 0.36, 0.74  # of the rod, from the arm's base
_TRIES, _CANDIDATES = 200, 6  # of pushes, of which the best is chosen
_IMMOVABLE = 1e4  # armature of an arm that levers cannot hold up [kg m^2]
_POSITION_GAIN, _TILT_GAIN, _HOME_GAIN, _DAMPING = 8.0, 4.0, 0.5, 0.02


class _Aim(NamedTuple):
    """Where the tip of the rod is to be [m], and how fast [m/s]."""

    position: Array  # (3,)
    velocity: Array  # (3,)


def make(mechanism: FilmedMechanism, seed: int, seconds: float = SECONDS) -> Film:
    """Return a film without forces; truth, start, pushes and noise are drawn with the seed."""
    levers, rng = _draw(mechanism, seed)
    seen = camera.from_model(levers.model, 'depth', films.CAMERA.width, films.CAMERA.height)
    view = SceneRenderer(levers.model, seen)
    time: list[float] = []
    images, poses = list[Array](), list[Poses]()
    for aim in levers.aims(seconds, np.random.default_rng([seed, 1])):
        if levers.data.time >= len(time) / RATE_HZ - 1e-9:
            mujoco.mj_kinematics(levers.model, levers.data)
            time.append(levers.data.time)
            poses.append(body_poses(levers.data, levers.parts))
            images.append(add_noise(films.CAMERA, view.render(levers.data), rng))
        levers.act(aim)
    nothing = np.zeros((0, 0))
    return Film(mechanism, levers.truth, np.array(time), images, poses, np.zeros(0), nothing, seen)


def _draw(mechanism: FilmedMechanism, seed: int) -> tuple['PushedLevers', np.random.Generator]:
    """Return levers with the truth and the start of a seed, and the generator of the noise."""
    rng = np.random.default_rng([seed, 0])
    levers = PushedLevers(mechanism, films.draw_truth(mechanism, seed), rng.uniform(*FRICTION))
    levers.begin(rng)
    return levers, rng


def without_arm(film: Film) -> Film:
    """Return a film without depths of what is higher above the table than any lever."""
    heights = film.camera.rays()[..., 2]
    images = [
        np.where(film.camera.position[2] + heights * image < _ABOVE_M, image, np.nan)
        for image in film.images
    ]
    return film._replace(images=images)


class PushedLevers:
    """The scene of a mechanism with the arm, which pushes."""

    def __init__(
        self, mechanism: FilmedMechanism, truth: dict[str, float], friction: float
    ) -> None:
        """Add the arm to the levers; `friction` is that of all levers on the table."""
        spec, arm = mechanism.spec(), mujoco.MjSpec.from_file(str(ARM))
        arm.geom('gripper').fromto[5] += _ROD_M
        arm.site('gripper').pos[2] += _ROD_M
        spec.attach(arm, prefix=ROBOT, frame=spec.worldbody.add_frame())
        self.model = model = spec.compile()
        films.set_truth(model, mechanism, truth)
        self.truth, self.friction = truth, friction
        self.data = mujoco.MjData(model)
        self.parts = [scene.find(model, 'body', part) for part in mechanism.parts]
        self._boxes = [model.geom(part) for part in mechanism.parts]
        self._start, self._robot = mechanism.start, load_robot('panda')
        joints = [model.joint(ROBOT + name) for name in self._robot.joints]
        self.positions = np.array([joint.qposadr[0] for joint in joints])
        self.drives = np.array([joint.dofadr[0] for joint in joints])
        self._tip = model.site(f'{ROBOT}gripper').id
        model.geom_friction[np.isin(model.geom_bodyid, self.parts), 0] = friction

    def begin(self, rng: np.random.Generator) -> None:
        """Lay the levers on the table, and hold the rod above it."""
        data, first = self.data, int(self.model.joint('base').qposadr[0])
        x, y, turn, *hinges = rng.uniform(*self._start)
        half = 0.5 * turn
        pose = x, y, data.qpos[first + 2], np.cos(half), 0.0, 0.0, np.sin(half)
        data.qpos[first : first + 7] = pose
        data.qpos[first + 7 : first + 7 + len(hinges)] = hinges
        data.qpos[self.positions] = self._robot.home
        mujoco.mj_forward(self.model, data)
        aim = _Aim(np.array([_REACH_M[0], 0.0, _HIGH_M]), np.zeros(3))
        for _ in range(_TRIES):  # no time passes
            data.qpos[self.positions] += 0.05 * self._speeds(aim)
            mujoco.mj_forward(self.model, data)

    def act(self, aim: _Aim) -> None:
        """Command velocities of the joints, and let a time step pass."""
        self.data.ctrl[:] = np.clip(self._speeds(aim), *self.model.actuator_ctrlrange.T)
        mujoco.mj_step(self.model, self.data)

    def _speeds(self, aim: _Aim) -> Array:
        """Return joint velocities (7,) toward an aim of the tip, with the rod straight down."""
        data = self.data
        jacobian = np.zeros((6, self.model.nv))
        mujoco.mj_jacSite(self.model, data, jacobian[:3], jacobian[3:], self._tip)
        jacobian = jacobian[:5, self.drives]  # the rod may turn about itself
        along = data.site_xmat[self._tip].reshape(3, 3)[:, 2]
        tilt = np.cross(along, [0.0, 0.0, -1.0])[:2]
        apart = aim.position - data.site_xpos[self._tip]
        wanted = np.concatenate([aim.velocity + _POSITION_GAIN * apart, _TILT_GAIN * tilt])
        gram = jacobian @ jacobian.T + _DAMPING**2 * np.eye(5)
        inverse = jacobian.T @ np.linalg.inv(gram)
        back = _HOME_GAIN * (np.array(self._robot.home) - data.qpos[self.positions])
        return np.asarray(inverse @ wanted + back - inverse @ (jacobian @ back))

    def aims(self, seconds: float, rng: np.random.Generator) -> Iterator[_Aim]:
        """Yield aims for each time step until a time [s], of one push after the other."""
        for aim in self._pushes(rng):
            if self.data.time >= seconds - 1e-9:
                return
            yield aim

    def _pushes(self, rng: np.random.Generator) -> Iterator[_Aim]:
        """Yield aims for each time step, of pushes without end."""
        turn = rng.permutation(len(self.parts))
        now = self.data.site_xpos[self._tip].copy()
        while True:
            for lever in turn:
                start, along = self._choose(int(lever), rng)
                end = start + (_CLEAR_M + rng.uniform(*_PUSH_M)) * along
                back = end - _CLEAR_M * along
                slow = rng.uniform(*_SLOW)
                for to, height, speed in (
                    (start, _HIGH_M, _FAST), (start, _LOW_M, _FAST), (end, _LOW_M, slow),
                    (back, _LOW_M, slow), (back, _HIGH_M, _FAST),
                ):  # fmt: skip
                    goal = np.append(to, height)
                    yield from self._line(now, goal, speed)
                    now = goal

    def _line(self, begin: Array, end: Array, speed: float) -> Iterator[_Aim]:
        """Yield the aims of a straight motion, from rest to rest, with a mean speed [m/s]."""
        step_s = self.model.opt.timestep
        seconds = max(float(np.linalg.norm(end - begin)) / speed, 0.2)
        for share in np.arange(step_s, seconds, step_s) / seconds:
            rate = 6.0 * share * (1.0 - share) / seconds
            place = begin + share**2 * (3.0 - 2.0 * share) * (end - begin)
            yield _Aim(place, rate * (end - begin))

    def _choose(self, lever: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return where a push of a lever begins (2,), and its direction, toward the middle."""
        candidates: list[tuple[float, Array, Array]] = []
        centre = np.mean([self.data.geom_xpos[box.id][:2] for box in self._boxes], axis=0)
        for _ in range(_TRIES):
            box = self._boxes[lever]
            turn = self.data.geom_xmat[box.id].reshape(3, 3)[:2, :2]
            side = rng.choice([-1.0, 1.0])
            reach = box.size[0] * rng.uniform(-0.9, 0.9)
            place = self.data.geom_xpos[box.id][:2] + turn @ np.array([reach, 0.0])
            along = -side * turn[:, 1]
            start = place - along * (box.size[1] + _CLEAR_M)
            distances = [self._distance(start, other) for other in self._boxes]
            reached = _REACH_M[0] < np.linalg.norm(start) < _REACH_M[1]
            moved = centre + np.mean(_PUSH_M) * along
            cost = float(np.linalg.norm(moved - _PLACE))
            if reached and min(distances) > _FREE_M:
                candidates.append((cost, start, along))
            if len(candidates) == _CANDIDATES:
                break
        if not candidates:
            return _PLACE, np.array([1.0, 0.0])
        return min(candidates, key=lambda candidate: candidate[0])[1:]

    def _distance(self, point: Array, box: Any) -> float:
        """Return the distance of a point (2,) of the table from a lever [m]."""
        turn = self.data.geom_xmat[box.id].reshape(3, 3)[:2, :2]
        local = turn.T @ (point - self.data.geom_xpos[box.id][:2])
        return float(np.linalg.norm(np.maximum(np.abs(local) - box.size[:2], 0.0)))


CHANGES: Mapping[str, Callable[[str], bool]] = {
    'all masses and dampings': lambda name: name != TABLE,
    'all masses': lambda name: name.endswith('_mass'),
    'mass of one lever': lambda name: name == 'middle_mass',
    'both dampings': lambda name: name.endswith('_damping'),
    'friction of the table': lambda name: name == TABLE,
}


def doubled(mechanism: FilmedMechanism, seed: int, seconds: float = CHANGED_S) -> dict[str, float]:
    """
    Return how far levers are from where they are, if some of the truth is doubled [mm].

    The arm moves as in the first seconds of the film. Distances are those of the farthest part, at
    the median over time. What moves no lever cannot be learned from images.
    """
    levers, _ = _draw(mechanism, seed)
    motion = []
    for aim in levers.aims(seconds, np.random.default_rng([seed, 1])):
        arm = levers.data.qpos[levers.positions], levers.data.qvel[levers.drives]
        motion.append(np.concatenate(arm))
        levers.act(aim)

    def play(is_changed: Callable[[str], bool]) -> Array:
        """Return the positions (T, B, 3) of the parts."""
        values = {**levers.truth, TABLE: levers.friction}
        values = {name: value * (1 + is_changed(name)) for name, value in values.items()}
        friction = values.pop(TABLE)
        other = PushedLevers(mechanism, values, friction)
        other.model.dof_armature[other.drives] = _IMMOVABLE
        other.model.opt.tolerance = 0.0  # or it would be relative to that
        mujoco.mj_setConst(other.model, mujoco.MjData(other.model))
        draws = np.random.default_rng([seed, 0])
        draws.uniform(*FRICTION)
        other.begin(draws)
        places = []
        for row in motion:
            other.data.qpos[other.positions], other.data.qvel[other.drives] = np.split(row, 2)
            mujoco.mj_step(other.model, other.data)
            places.append(other.data.xpos[other.parts])
        return np.array(places)

    unchanged = play(lambda _: False)
    apart = {
        name: np.linalg.norm(play(changed) - unchanged, axis=-1).max(axis=-1)
        for name, changed in CHANGES.items()
    }
    return {name: 1e3 * float(np.median(distance)) for name, distance in apart.items()}
