"""
The mechanisms of the benchmark; to add one, add a line to MECHANISMS.

A scene has a camera `depth`, and bodies whose joints have their names; those of a planar joint
end in `_x`, `_y` and `_turn`. All frames are parallel at joint positions 0. Actuators push along
slides, or at a site, which is then at the origin of a part.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np

from benchmarks import ASSETS
from emppi_ros.articulation.topology import WORLD
from emppi_ros.model import scene

DENSITY = (100.0, 2000.0)  # kg/m^3, of wood and plastics: range of priors and of the truth


class FilmedJoint(NamedTuple):
    """A joint of the true tree."""

    parent: str
    child: str
    kind: str


@dataclass(frozen=True)
class FilmedMechanism:
    """A mechanism that is filmed."""

    description: str  # for the report
    file: str  # scene, in benchmarks/assets
    joints: tuple[FilmedJoint, ...]  # the tree, parents first, with one joint on the world
    # joint -> range of its damping, of priors and of the truth
    damping: Mapping[str, tuple[float, float]]
    # lower and upper bounds of the joint positions at the start
    start: tuple[tuple[float, ...], tuple[float, ...]]
    # parts of known mass: without forces, motion shows ratios of masses only
    weighed: tuple[str, ...] = ()
    pushed: bool = False  # by an arm: no force is recorded
    swings_up: bool = False  # whether an actuator can bring the last part upright

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts."""
        return tuple(joint.child for joint in self.joints)

    def load(self, visual: bool = False) -> mujoco.MjModel:
        """Return the model of the scene."""
        return scene.load_scene(ASSETS / self.file, visual=visual)

    def spec(self) -> mujoco.MjSpec:
        """Return the scene, to change."""
        return mujoco.MjSpec.from_file(str(ASSETS / self.file))


class Unknown(NamedTuple):
    """An unknown parameter: its field, of a part or of the joint that holds it, and its range."""

    field: str
    part: str
    unit: str
    lower: float
    upper: float


def unknowns(mechanism: FilmedMechanism) -> dict[str, Unknown]:
    """Return the unknown parameters by name; masses follow from shapes and densities."""
    model, spec, by_name = mechanism.load(), mechanism.spec(), {}
    for part in mechanism.parts:
        if part not in mechanism.weighed:
            volume = float(model.body(part).mass[0]) / float(spec.geom(part).density)
            limits = DENSITY[0] * volume, DENSITY[1] * volume
            by_name[f'{part}_mass'] = Unknown('body_mass', part, 'kg', *limits)
    for joint in mechanism.joints:
        if joint.child in mechanism.damping:
            unit = 'N s/m' if joint.kind == 'prismatic' else 'N m s/rad'
            limits = mechanism.damping[joint.child]
            by_name[f'{joint.child}_damping'] = Unknown('dof_damping', joint.child, unit, *limits)
    return by_name


_LEVERS = (  # joints, and ranges of dampings
    (
        FilmedJoint(WORLD, 'base', 'planar'),
        FilmedJoint('base', 'middle', 'revolute'),
        FilmedJoint('middle', 'end', 'revolute'),
    ),
    {'middle': (0.0005, 0.02), 'end': (0.0005, 0.02)},
)
MECHANISMS = {
    'cartpole': FilmedMechanism(
        'A cart with a pole is driven by a force along its rail.',
        'filmed_cartpole.xml',
        (FilmedJoint(WORLD, 'cart', 'prismatic'), FilmedJoint('cart', 'pole', 'revolute')),
        {'cart': (0.05, 5.0), 'pole': (0.001, 0.05)},
        ((-0.1, np.pi - 1.0), (0.1, np.pi + 1.0)),
        swings_up=True,
    ),
    'rott': FilmedMechanism(
        "A coupled pendulum such as Rott's, an L with a second pendulum at its end, is let go. "
        'The L was weighed, since without forces motion only shows ratios of masses and dampings.',
        'filmed_rott.xml',
        (FilmedJoint(WORLD, 'frame', 'revolute'), FilmedJoint('frame', 'bob', 'revolute')),
        {'frame': (0.0005, 0.02), 'bob': (0.00005, 0.002)},
        ((-1.5, -1.5), (1.5, 1.5)),
        weighed=('frame',),
    ),
    'craftsman': FilmedMechanism(
        'Three levers on two hinges, as of the toy Craftsman, slide on a table that bears their '
        'weight without friction. A force in the plane of the table pushes the first one.',
        'filmed_craftsman.xml',
        *_LEVERS,
        ((-0.1, -0.1, -0.5, -1.0, -1.0), (0.1, 0.1, 0.5, 1.0, 1.0)),
    ),
    'pushed': FilmedMechanism(
        'Such levers lie on a table with dry friction, and a simulated Panda pushes them with a '
        'rod. No force is recorded.',
        'filmed_pushed.xml',
        *_LEVERS,
        ((0.5, -0.3, 1.2, -0.6, -0.6), (0.6, -0.2, 1.9, 0.6, 0.6)),
        pushed=True,
    ),
}
