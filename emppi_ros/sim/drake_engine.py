"""
Physics of the simulated robot by Drake instead of MuJoCo (optional extra `drake`).

Planner and belief predict with MuJoCo; here they meet contacts that their models do not have. The
Drake plant is built from the compiled MuJoCo model, with its true parameters: the same bodies,
joints, servos and collision filters, but hydroelastic contact patches and Drake's convex solver.
"""

from collections.abc import Callable, Mapping
import itertools
import logging
from typing import Any

import mujoco
import numpy as np
from scipy.optimize import nnls

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError

try:
    from pydrake import geometry
    from pydrake import math as drake_math
    from pydrake.multibody import plant as multibody
    from pydrake.multibody import tree
    from pydrake.systems.framework import DiagramBuilder
except ImportError:  # the extra is not installed
    DiagramBuilder = None

_JOINT, _GEOM = mujoco.mjtJoint, mujoco.mjtGeom
_FREE, _SLIDE, _HINGE = _JOINT.mjJNT_FREE.value, _JOINT.mjJNT_SLIDE.value, _JOINT.mjJNT_HINGE.value
_MODULUS_PA = 1e7  # of free objects; everything else is rigid
_RESOLUTION_M = 0.01  # of the meshes of rigid geoms
_DISSIPATION = 10.0  # s/m, after Hunt and Crossley
_SLIPPERY, _STICKY = 1e-3, 1e6  # bounds of friction coefficients
_SLOW = 1e-3  # rad/s or m/s, below which dry friction is viscous
logging.getLogger('drake').setLevel(logging.ERROR)  # it warns about features that are not used


class DrakeEngine:
    """Steps a Drake plant that corresponds to a MuJoCo model; it has no state of its own."""

    def __init__(self, model: mujoco.MjModel) -> None:
        """Build the plant; ConfigError if Drake is missing, or if it lacks a feature."""
        if DiagramBuilder is None:
            raise ConfigError(
                "simulation: engine: drake is not installed: pip install 'emppi_ros[drake]'"
            )
        _check(model)
        self._model = model
        builder = DiagramBuilder()
        config = multibody.MultibodyPlantConfig(
            time_step=model.opt.timestep,
            contact_model='hydroelastic_with_fallback',
            discrete_contact_approximation='lagged',
            use_sampled_output_ports=False,  # else the state has more than q and v
        )
        self._plant, scene_graph = multibody.AddMultibodyPlant(config, builder)
        bodies = _add_bodies(self._plant, model)
        joints = _add_joints(self._plant, model, bodies)
        _add_geoms(self._plant, scene_graph, model, bodies)
        self._plant.mutable_gravity_field().set_gravity_vector(model.opt.gravity)
        self._plant.Finalize()
        self._diagram = builder.Build()
        self._root = self._diagram.CreateDefaultContext()
        self._context = self._plant.GetMyMutableContextFromRoot(self._root)
        self._index_states(joints, bodies)
        self._damping = _damping(model)
        self._servo_damping = self._damping - model.dof_damping
        if self._plant.num_actuators():  # forces are applied to joints instead
            zeros = np.zeros(self._plant.num_actuators())
            self._plant.get_actuation_input_port().FixValue(self._context, zeros)

    def _index_states(self, joints: Mapping[int, Any], bodies: list[Any]) -> None:
        """Find the rows of hinges and slides, and of free bodies, in both engines."""
        model, scalar = self._model, list(joints)
        self._qpos, self._dof = model.jnt_qposadr[scalar], model.jnt_dofadr[scalar]
        self._q = np.array([each.position_start() for each in joints.values()], np.intp)
        self._v = np.array([each.velocity_start() for each in joints.values()], np.intp)
        dofs = {joint: int(dof) for joint, dof in zip(joints.values(), self._dof, strict=True)}
        self._dry = [(j, dof) for j, dof in dofs.items() if model.dof_frictionloss[dof] > 0.0]
        self._free = []
        for i in np.flatnonzero(model.jnt_type == _FREE).tolist():
            body = bodies[model.jnt_bodyid[i]]
            places = body.floating_positions_start(), body.floating_velocities_start_in_v()
            self._free.append((int(model.jnt_qposadr[i]), int(model.jnt_dofadr[i]), *places))

    def step(self, data: mujoco.MjData) -> None:
        """
        Advance positions, velocities and time by one step.

        As after `mj_step`, all other fields of `data` belong to the start of the step. Forces of
        actuators and springs are those of MuJoCo; their damping is implicit.
        """
        mujoco.mj_forward(self._model, data)
        plant, context = self._plant, self._context
        q, v = self._read(data)
        plant.SetPositions(context, q)
        plant.SetVelocities(context, v)
        forces = np.zeros(len(v))
        explicit = data.qfrc_actuator + data.qfrc_spring + self._servo_damping * data.qvel
        forces[self._v] = explicit[self._dof]
        plant.get_applied_generalized_force_input_port().FixValue(context, forces)
        state = self._next(v)
        if self._dry:
            state = self._next(state[len(q) :])
        self._write(data, state[: len(q)], state[len(q) :])
        data.time += self._model.opt.timestep

    def _next(self, v: Array) -> Array:
        """Return positions and velocities after a step; `v` scales dry friction to its limit."""
        for joint, dof in self._dry:
            slip = max(abs(v[joint.velocity_start()]), _SLOW)
            friction = self._model.dof_frictionloss[dof] / slip
            joint.SetDampingVector(self._context, [self._damping[dof] + friction])
        state: Array = (
            self._diagram.EvalUniquePeriodicDiscreteUpdate(self._root).get_vector().value()
        )
        return state

    def _read(self, data: mujoco.MjData) -> tuple[Array, Array]:
        q, v = np.zeros(self._plant.num_positions()), np.zeros(self._plant.num_velocities())
        q[self._q] = data.qpos[self._qpos] - self._model.qpos0[self._qpos]
        v[self._v] = data.qvel[self._dof]
        for qpos, dof, place, speed in self._free:
            turn = data.qpos[qpos + 3 : qpos + 7] / np.linalg.norm(data.qpos[qpos + 3 : qpos + 7])
            q[place : place + 4], q[place + 4 : place + 7] = turn, data.qpos[qpos : qpos + 3]
            v[speed : speed + 3] = _matrix(turn) @ data.qvel[dof + 3 : dof + 6]  # of the world
            v[speed + 3 : speed + 6] = data.qvel[dof : dof + 3]
        return q, v

    def _write(self, data: mujoco.MjData, q: Array, v: Array) -> None:
        data.qpos[self._qpos] = q[self._q] + self._model.qpos0[self._qpos]
        data.qvel[self._dof] = v[self._v]
        for qpos, dof, place, speed in self._free:
            turn = q[place : place + 4] / np.linalg.norm(q[place : place + 4])
            data.qpos[qpos : qpos + 3], data.qpos[qpos + 3 : qpos + 7] = q[place + 4 :][:3], turn
            data.qvel[dof : dof + 3] = v[speed + 3 : speed + 6]
            data.qvel[dof + 3 : dof + 6] = _matrix(turn).T @ v[speed : speed + 3]


def _check(model: mujoco.MjModel) -> None:
    """Raise ConfigError if the model has a feature that the plant would lack."""
    colliding = (model.geom_contype | model.geom_conaffinity) != 0
    lacking = {
        'equality constraints': model.neq > 0,
        'tendons': model.ntendon > 0,
        'ball joints': np.any(~np.isin(model.jnt_type, [_FREE, _SLIDE, _HINGE])),
        'bodies with several joints': np.any(model.body_jntnum > 1),
        'a density or viscosity of the air': model.opt.density or model.opt.viscosity,
        'partly compensated gravity': np.any(~np.isin(model.body_gravcomp, [0.0, 1.0])),
        'gravity compensation by actuators': np.any(model.jnt_actgravcomp),
        'colliding meshes': not set(model.geom_type[colliding]) <= set(_SHAPES),
        'colliding mocap bodies': np.any(model.body_mocapid[model.geom_bodyid[colliding]] >= 0),
        'contact pairs': model.npair > 0,
        'actuators other than of joints': np.any(
            model.actuator_trntype != mujoco.mjtTrn.mjTRN_JOINT.value
        ),
    }
    if features := [name for name, lacks in lacking.items() if lacks]:
        raise ConfigError(f'simulation: engine: drake does not support {", ".join(features)}')


def _matrix(quaternion: Array) -> Array:
    """Return the rotation matrix (3, 3) of a quaternion wxyz (4,)."""
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, quaternion)
    return matrix.reshape(3, 3)


def _transform(position: Array, quaternion: Array) -> Any:
    return drake_math.RigidTransform(drake_math.RotationMatrix(_matrix(quaternion)), position)


def _add_bodies(plant: Any, model: mujoco.MjModel) -> list[Any]:
    """Add all bodies; return them by MuJoCo's index, the world first."""
    instances = [plant.AddModelInstance(name) for name in ('heavy', 'compensated')]
    bodies = [plant.world_body()]
    for i in range(1, model.nbody):
        turn = _matrix(model.body_iquat[i])
        inertia = turn @ np.diag(model.body_inertia[i]) @ turn.T
        moments = tree.RotationalInertia(
            *np.diag(inertia), inertia[0, 1], inertia[0, 2], inertia[1, 2]
        )
        mass, centre = float(model.body_mass[i]), model.body_ipos[i]
        if mass > 0.0:
            spatial = tree.SpatialInertia.MakeFromCentralInertia(mass, centre, moments)
        else:
            spatial = tree.SpatialInertia.Zero()
        instance = instances[int(model.body_gravcomp[i])]
        bodies.append(plant.AddRigidBody(f'body{i}', instance, spatial))
    plant.set_gravity_enabled(instances[1], False)
    return bodies


def _add_joints(plant: Any, model: mujoco.MjModel, bodies: list[Any]) -> dict[int, Any]:
    """Add hinges, slides and welds; return the first two by MuJoCo's index."""
    joints: dict[int, Any] = {}
    for i in range(1, model.nbody):
        parent = bodies[model.body_parentid[i]]
        place = _transform(model.body_pos[i], model.body_quat[i])
        first = int(model.body_jntadr[i])
        if first < 0:
            plant.WeldFrames(parent.body_frame(), bodies[i].body_frame(), place)
            continue
        if model.jnt_type[first] == _FREE:
            continue
        low, high = model.jnt_range[first] - model.qpos0[model.jnt_qposadr[first]]
        if not model.jnt_limited[first]:
            low, high = -np.inf, np.inf
        anchor = drake_math.RigidTransform(model.jnt_pos[first])
        before, after = (
            plant.AddFrame(tree.FixedOffsetFrame(f'{name}{i}', body.body_frame(), offset))
            for name, body, offset in (
                ('before', parent, place.multiply(anchor)),
                ('after', bodies[i], anchor),
            )
        )
        kind = tree.RevoluteJoint if model.jnt_type[first] == _HINGE else tree.PrismaticJoint
        dof = int(model.jnt_dofadr[first])
        joints[first] = plant.AddJoint(
            kind(f'joint{first}', before, after, model.jnt_axis[first], low, high,
                 _damping(model)[dof])
        )  # fmt: skip
        if model.dof_armature[dof]:
            actuator = plant.AddJointActuator(f'rotor{first}', joints[first])
            actuator.set_default_rotor_inertia(float(model.dof_armature[dof]))
            actuator.set_default_gear_ratio(1.0)
    return joints


def _damping(model: mujoco.MjModel) -> Array:
    """Return the implicit damping (nv,): that of joints, and the feedback of servos."""
    damping = model.dof_damping.copy()
    for i in range(model.nu):
        if model.actuator_biastype[i] == mujoco.mjtBias.mjBIAS_AFFINE.value:
            feedback = max(-model.actuator_biasprm[i, 2], 0.0) * model.actuator_gear[i, 0] ** 2
            damping[model.jnt_dofadr[model.actuator_trnid[i, 0]]] += feedback
    return damping


_SHAPES: dict[int, Callable[[Array], Any]] = {
    _GEOM.mjGEOM_PLANE.value: lambda _: geometry.HalfSpace(),
    _GEOM.mjGEOM_SPHERE.value: lambda size: geometry.Sphere(size[0]),
    _GEOM.mjGEOM_CAPSULE.value: lambda size: geometry.Capsule(size[0], 2.0 * size[1]),
    _GEOM.mjGEOM_CYLINDER.value: lambda size: geometry.Cylinder(size[0], 2.0 * size[1]),
    _GEOM.mjGEOM_ELLIPSOID.value: lambda size: geometry.Ellipsoid(*size),
    _GEOM.mjGEOM_BOX.value: lambda size: geometry.Box(*(2.0 * size)),
}


def _add_geoms(plant: Any, scene_graph: Any, model: mujoco.MjModel, bodies: list[Any]) -> None:
    """Add all colliding geoms; exclude the pairs of them that MuJoCo does not let collide."""
    colliding = np.flatnonzero((model.geom_contype | model.geom_conaffinity) != 0).tolist()
    pairs = {pair: _may_touch(model, *pair) for pair in itertools.combinations(colliding, 2)}
    friction = _friction(model, colliding, [pair for pair, touch in pairs.items() if touch])
    geoms = {}
    for i in colliding:
        body, kind = int(model.geom_bodyid[i]), int(model.geom_type[i])
        properties = geometry.ProximityProperties()
        geometry.AddContactMaterial(
            dissipation=_DISSIPATION,
            friction=multibody.CoulombFriction(friction[i], friction[i]),
            properties=properties,
        )
        first = int(model.body_jntadr[body])
        if first >= 0 and model.jnt_type[first] == _FREE:
            geometry.AddCompliantHydroelasticProperties(_RESOLUTION_M, _MODULUS_PA, properties)
        elif kind == _GEOM.mjGEOM_PLANE.value:
            geometry.AddRigidHydroelasticProperties(properties)
        else:
            geometry.AddRigidHydroelasticProperties(_RESOLUTION_M, properties)
        place = _transform(model.geom_pos[i], model.geom_quat[i])
        shape = _SHAPES[kind](model.geom_size[i])
        geoms[i] = plant.RegisterCollisionGeometry(
            bodies[body], place, shape, f'geom{i}', properties
        )
    declaration = geometry.CollisionFilterDeclaration()
    for (i, j), touch in pairs.items():
        if not touch:
            declaration.ExcludeBetween(
                geometry.GeometrySet(geoms[i]), geometry.GeometrySet(geoms[j])
            )
    scene_graph.collision_filter_manager().Apply(declaration)


def _friction(
    model: mujoco.MjModel, geoms: list[int], touching: list[tuple[int, int]]
) -> dict[int, float]:
    """
    Return a coefficient of friction for each geom with which pairs have those of MuJoCo.

    Drake combines two coefficients to their harmonic mean, so their reciprocals solve a linear
    system. It has no exact solution where MuJoCo's maximum or priority decides between many.
    """
    if not touching:
        return dict.fromkeys(geoms, 1.0)
    pairs = np.array(touching)
    # sliding friction as MuJoCo combines it: the maximum, of the geom with the higher priority
    priority = model.geom_priority[pairs]
    decides = priority == priority.max(axis=1, keepdims=True)
    friction = np.where(decides, model.geom_friction[pairs, 0], 0.0).max(axis=1)
    friction[np.where(decides, model.geom_condim[pairs], 0).max(axis=1) <= 1] = 0.0
    matrix = (pairs[:, :, None] == geoms).sum(axis=1)
    reciprocals, _ = nnls(matrix, 2.0 / np.clip(friction, _SLIPPERY, _STICKY))
    return {i: float(1.0 / max(r, 1.0 / _STICKY)) for i, r in zip(geoms, reciprocals, strict=True)}


def _may_touch(model: mujoco.MjModel, i: int, j: int) -> bool:
    """Return whether MuJoCo would let two geoms collide."""
    kinds, affinities = model.geom_contype, model.geom_conaffinity
    if not (kinds[i] & affinities[j] or kinds[j] & affinities[i]):
        return False
    bodies = model.geom_bodyid[[i, j]]
    first, other = model.body_weldid[bodies]
    if first == other:
        return False
    if np.isin([bodies @ [1 << 16, 1], bodies @ [1, 1 << 16]], model.exclude_signature).any():
        return False
    parents = model.body_weldid[model.body_parentid[[first, other]]]
    related = (first, other) in ((parents[1], other), (first, parents[0]))
    return not (related and first and other)  # a parent that is the world collides
