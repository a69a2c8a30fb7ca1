"""Models on MuJoCo Warp move as those in MuJoCo do, within single precision."""

import sys
import warnings

import command_series
import mujoco
import numpy as np
import pytest
import yaml

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError, ParameterError, SceneError
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.model.fields import FIELDS as REGISTRY
from emppi_ros.model.fields import NOT_IN_MODEL
from emppi_ros.model.parameters import Parameter, nominal_values
from emppi_ros.planning.planner import Planner
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.task import load_task, parse_task

try:
    from emppi_ros.model import warp_batch
except ImportError:
    warp_batch = None
with_warp = pytest.mark.skipif(warp_batch is None, reason='MuJoCo Warp is not installed')
without_gpu = pytest.mark.skipif(
    warp_batch is not None and bool(warp_batch.wp.get_cuda_devices()), reason='a GPU is here'
)

# Sixty steps round every number by 6e-8 of it: the joints amplify this to 4e-6 (measured).
FREE = 4e-5  # m, rad, m/s, rad/s
# Contacts amplify it less, once solvers converge (measured: 4e-7 for a block, 7e-6 where an arm
# pushes it). Solvers that stop early, at 1e-6, stop elsewhere: MuJoCo itself ends 1e-2 m away.
CONTACT = 1e-5  # m, rad
STEPS = 60

MACHINE = """
<mujoco>
  <option timestep="0.005" integrator="implicitfast"/>
  <worldbody>
    <body name="upper" pos="0 0 1">
      <joint name="shoulder" axis="0 1 0" damping="0.1" stiffness="1" armature="0.01"/>
      <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.03" mass="0.8"/>
      <body name="lower" pos="0.4 0 0" simple="false">
        <joint name="elbow" axis="0 1 0" damping="0.05" frictionloss="0.02"/>
        <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="0.5"/>
        <site name="tip" pos="0.3 0 0"/>
      </body>
    </body>
  </worldbody>
  <tendon>
    <fixed name="tendon">
      <joint joint="shoulder" coef="1"/>
      <joint joint="elbow" coef="-1"/>
    </fixed>
  </tendon>
  <actuator>
    <position name="servo" joint="shoulder" kp="5"/>
    <motor name="motor" joint="elbow" gear="0.5"/>
  </actuator>
  <sensor><framelinvel objtype="site" objname="tip"/></sensor>
</mujoco>
"""
# field, object, element, change
FIELDS = [
    ('body_mass', 'lower', 0, 0.2),
    ('body_inertia', 'lower', 0, 0.05),
    ('body_pos', 'lower', 0, 0.1),
    ('body_ipos', 'lower', 2, 0.1),
    ('jnt_axis', 'elbow', 0, 0.5),
    ('jnt_pos', 'elbow', 0, 0.1),
    ('jnt_stiffness', 'shoulder', 0, 2.0),
    ('jnt_springref', 'shoulder', 0, 1.0),
    ('dof_damping', 'elbow', 0, 0.2),
    ('dof_frictionloss', 'elbow', 0, 0.1),
    ('dof_armature', 'elbow', 0, 0.05),
    ('tendon_stiffness', 'tendon', 0, 2.0),
    ('tendon_damping', 'tendon', 0, 0.2),
    ('tendon_frictionloss', 'tendon', 0, 0.2),
    ('actuator_gear', 'motor', 0, 1.0),
    ('actuator_gain', 'servo', 0, 5.0),
    ('gravity', '', 0, 1.0),
]
BLOCK = """
<mujoco>
  <option timestep="0.005" integrator="implicitfast" cone="elliptic" jacobian="dense"
          tolerance="1e-10" iterations="100" ls_iterations="50">
    <flag diagexact="{exact}"/>
  </option>
  <worldbody>
    <geom name="table" type="plane" size="2 2 0.1" friction="0.1 0.005 0.0001"/>
    <body name="block" pos="0 0 0.049">
      <freejoint/>
      <geom name="block" type="box" size="0.05 0.04 0.05" mass="0.5" condim="4" priority="1"
            friction="0.4 0.005 0.0001"/>
    </body>
    <body name="pusher" pos="-0.1 0.015 0.05">
      <joint name="slide" type="slide" axis="1 0 0"/>
      <geom name="pusher" type="sphere" size="0.02" mass="1"/>
    </body>
  </worldbody>
  <actuator><velocity name="push" joint="slide" kv="100"/></actuator>
</mujoco>
"""
# excludes body_inertia; of an elbow whose axis is not a principal one
MATRIX = [('body_fullinertia', 'lower', 1, 0.02), ('body_fullinertia', 'lower', 3, 0.0004)]
CONTACT_FIELDS = [
    ('body_mass', 'block', 0, 0.5),
    ('geom_friction', 'block', 0, 0.3),
    ('geom_friction', 'block', 1, 0.1),
    ('geom_solref', 'block', 0, 0.03),
    ('geom_solimp', 'block', 0, -0.6),
    ('geom_size', 'block', 0, 0.01),
]


def _varied(model, fields):
    """Return parameters, and theta in which each model but the first changes another one."""
    parameters = [
        Parameter(f'p{i}', field, of, element, lower=max(REGISTRY[field].floor, -100.0))
        for i, (field, of, element, _) in enumerate(fields)
    ]
    theta = np.tile(nominal_values(parameters, model), (len(fields) + 1, 1))
    theta[1:] += np.diag([change for *_, change in fields])
    return parameters, theta


def _both(model, parameters, theta, rollouts=2):
    pair = [
        Ensemble(model, parameters, len(theta), rollouts, threads=1, device=device)
        for device in ('cpu', 'warp-cpu')
    ]
    for ensemble in pair:
        ensemble.write(theta)
    return pair


def _controls(models, rollouts, nu, seed=0, scale=0.5):
    return np.random.default_rng(seed).normal(0.0, scale, (models, rollouts, STEPS, nu))


def test_every_field_of_the_registry_is_compared_or_refused():
    refused = 'jnt_type', 'jnt_articulation'
    compared = {field for field, *_ in FIELDS + MATRIX + CONTACT_FIELDS} | {
        'tilt'
    }  # it writes gravity
    assert set(REGISTRY) == compared | {*refused, *NOT_IN_MODEL}


@with_warp
@pytest.mark.parametrize(('fields', 'axis'), [(FIELDS, '0 1 0'), (MATRIX, '1 1 0')])
def test_every_field_of_a_free_motion_is_that_of_its_model(fields, axis):
    elbow = '<joint name="elbow" axis="{}"'
    text = MACHINE.replace(elbow.format('0 1 0'), elbow.format(axis))
    model = mujoco.MjModel.from_xml_string(text)
    parameters, theta = _varied(model, fields)
    pair = _both(model, parameters, theta)
    controls = np.broadcast_to(_controls(1, 2, 2), (len(theta), 2, STEPS, 2))
    start = State(np.array([0.3, -0.5]), np.array([0.5, 1.0]))
    record = ('qpos', 'qvel', 'sensordata', 'site_xpos', 'xmat')
    ours, warps = (ensemble.rollout(start, controls, record) for ensemble in pair)
    for name in record:
        assert warps.fields[name].shape == ours.fields[name].shape
        assert warps.fields[name].dtype == ours.fields[name].dtype
        np.testing.assert_allclose(warps.fields[name], ours.fields[name], atol=FREE, rtol=0)
    moved = np.abs(warps.fields['qpos'][1:] - warps.fields['qpos'][0]).max(axis=(1, 2, 3))
    assert np.all(moved > 20.0 * FREE), dict(zip(fields, moved, strict=True))


@with_warp
@pytest.mark.parametrize('exact', ['enable', 'disable'])
def test_every_field_of_a_contact_is_that_of_its_model(exact):
    model = mujoco.MjModel.from_xml_string(BLOCK.format(exact=exact))
    parameters, theta = _varied(model, CONTACT_FIELDS)
    pair = _both(model, parameters, theta, 1)
    controls = np.full((len(theta), 1, STEPS, 1), 0.5)
    start = State(model.qpos0.copy(), np.zeros(model.nv))
    ours, warps = (e.rollout(start, controls, ('qpos',)).fields['qpos'] for e in pair)
    np.testing.assert_allclose(warps, ours, atol=CONTACT, rtol=0)
    assert np.all(warps[:, 0, -1, 0] > 0.02)  # m: pushed
    moved = np.abs(warps[1:] - warps[0]).max(axis=(1, 2, 3))
    assert np.all(moved > 20.0 * CONTACT), dict(zip(CONTACT_FIELDS, moved, strict=True))


@pytest.fixture(scope='module')
def push():
    """Return panda_push with a converging solver, and Ensembles in MuJoCo and in Warp."""
    task = load_task('panda_push')
    task.model.opt.tolerance, task.model.opt.iterations = 1e-10, 100
    theta = task.prior.sample(4, np.random.default_rng(5))
    return task, _both(task.model, task.parameters, theta)


@with_warp
def test_pushes_of_an_arm_end_where_those_in_mujoco_end(push):
    task, pair = push
    loop = ClosedLoop(task, seed=11)
    loop.run(1.0, stop_at_success=False)  # until the arm pushes
    start = loop.planner.estimator.state(loop.planner.estimator.stamp)
    rng, shape = np.random.default_rng(6), (4, 2, STEPS, task.model.nu)
    controls = np.cumsum(rng.normal(0.0, 0.05, shape), axis=2)
    names = ('qpos', 'xpos', 'site_xpos', 'sensordata')
    ours, warps = (e.rollout(start, controls, names).fields for e in pair)
    assert np.ptp(ours['sensordata'][..., 0]) > 0.1  # N or m/s: some push
    for name in names[:3]:
        np.testing.assert_allclose(warps[name], ours[name], atol=10.0 * CONTACT, rtol=0)


@with_warp
def test_predictions_have_the_time_step_and_start_of_their_model(push):
    task, pair = push
    rng = np.random.default_rng(7)
    start = State(task.start().qpos + rng.normal(0.0, 0.01, (4, task.model.nq)), np.zeros((4, 13)))
    controls, steps = rng.normal(0.0, 0.3, (4, 10, task.model.nu)), np.linspace(0.004, 0.01, 4)
    ours, warps = (ensemble.predict(start, controls, steps) for ensemble in pair)
    np.testing.assert_allclose(warps.qpos, ours.qpos, atol=FREE, rtol=0)
    assert np.all(np.ptp(ours.qpos[:, :7], axis=0) > 10.0 * FREE)
    # the rollouts that follow have the time step of the scene
    same = np.broadcast_to(controls[:, None], (4, 2, *controls.shape[1:]))
    ours, warps = (e.rollout(start, same, ('qpos',)).fields['qpos'] for e in pair)
    np.testing.assert_allclose(warps, ours, atol=FREE, rtol=0)


@with_warp
def test_rollouts_have_their_own_starts_forces_and_order_and_repeat_bit_for_bit():
    model = mujoco.MjModel.from_xml_string(MACHINE)
    parameters, theta = _varied(model, FIELDS[:2])
    pair = _both(model, parameters, theta)
    rng = np.random.default_rng(8)
    start = State(*rng.normal(0.0, 0.5, (2, 3, 2, 2)))
    controls, applied = rng.normal(0.0, 0.3, (2, 3, 2, STEPS, 2))
    ours, warps = (e.rollout(start, controls, ('qpos',), applied).fields['qpos'] for e in pair)
    np.testing.assert_allclose(warps, ours, atol=FREE, rtol=0)
    first = warps.copy()
    ours, warps = (e.rollout(start, controls, ('qpos',)).fields['qpos'] for e in pair)
    np.testing.assert_allclose(warps, ours, atol=FREE, rtol=0)  # the forces ended
    again = pair[1].rollout(start, controls, ('qpos',), applied).fields['qpos']
    assert np.array_equal(again, first)


@with_warp
def test_grasps_and_targets_are_those_that_are_set():
    text = """
    <mujoco>
      <worldbody>
        <body name="target" mocap="true" pos="0.3 0 0"><site name="mark" pos="0 0 0.1"/></body>
        <body name="ball"><freejoint/><geom size="0.05" contype="0" conaffinity="0"/></body>
      </worldbody>
      <equality><weld name="grasp" body1="ball" active="false"/></equality>
      <actuator><motor site="mark"/></actuator>
    </mujoco>"""
    model = mujoco.MjModel.from_xml_string(text.replace('    </mujoco>', '</mujoco>'))
    pair = _both(model, (), np.empty((2, 0)))
    start, controls = State(model.qpos0.copy(), np.zeros(6)), np.zeros((2, 2, 20, 1))
    heights = []
    for grasp, quaternion in (((), [1.0, 0.0, 0.0, 0.0]), ((0,), [0.0, 1.0, 0.0, 0.0])):
        for ensemble in pair:
            ensemble.activate(grasp)
            ensemble.set_mocap_quat(0, np.array(quaternion))
        names = 'qpos', 'site_xpos'
        ours, warps = (e.rollout(start, controls, names).fields for e in pair)
        for name in names:
            np.testing.assert_allclose(warps[name], ours[name], atol=CONTACT, rtol=0)
        heights.append((warps['qpos'][0, 0, -1, 2], warps['site_xpos'][0, 0, -1, 0, 2]))
    (fallen, above), (held, below) = heights
    assert fallen < -5e-3 < held and above > 0.0 > below


@with_warp
def test_a_diverged_rollout_is_marked_and_spoils_no_other():
    model = mujoco.MjModel.from_xml_string(MACHINE)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET.value  # as in all scenes
    pair = _both(model, (), np.empty((3, 0)))
    qvel = np.zeros((3, 2, 2))
    qvel[1, 0] = 1e9
    controls = np.zeros((3, 2, STEPS, 2))
    ours, warps = (e.rollout(State(np.zeros((3, 2, 2)), qvel), controls, ('qpos',)) for e in pair)
    assert np.array_equal(warps.diverged, ours.diverged) and warps.diverged.sum() == 1
    fine = ~warps.diverged
    np.testing.assert_allclose(
        warps.fields['qpos'][fine], ours.fields['qpos'][fine], atol=FREE, rtol=0
    )


@with_warp
def test_more_contacts_than_memory_are_reported_and_simulated_all_the_same():
    model = mujoco.MjModel.from_xml_string(BLOCK.format(exact='enable'))
    ensemble = _both(model, (), np.empty((2, 0)))[1]
    start, controls = State(model.qpos0.copy(), np.zeros(model.nv)), np.full((2, 2, STEPS, 1), 0.5)
    expected = ensemble.rollout(start, controls, ('qpos',)).fields['qpos'].copy()
    ensemble.batch._worlds.clear(), ensemble.batch._rollouts.clear()
    ensemble.batch._contacts, ensemble.batch._constraints = 2, 8
    with pytest.warns(UserWarning, match='overflow of .*: now memory for 4 contacts and 16'):
        grown = ensemble.rollout(start, controls, ('qpos',)).fields['qpos']
    np.testing.assert_allclose(grown, expected, atol=CONTACT, rtol=0)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        ensemble.rollout(start, controls, ('qpos',))
    ensemble.batch._worlds.clear(), ensemble.batch._rollouts.clear()
    ensemble.batch._contacts, ensemble.batch._constraints = warp_batch.MOST_CONTACTS, 8
    with pytest.raises(SceneError, match='overflow of NEFC, with 4096 contacts per world'):
        ensemble.rollout(start, controls, ('qpos',))


@with_warp
def test_what_warp_cannot_simulate_is_refused_by_name():
    def refuse(text, match, *parameters):
        model = mujoco.MjModel.from_xml_string(text)
        with pytest.raises(SceneError, match=match) as error:
            Ensemble(model, parameters, 2, device='warp-cpu')
        assert '`device: cpu`' in str(error.value)

    block = BLOCK.format(exact='enable')
    kind = Parameter('kind', 'jnt_type', 'elbow', lower=0.0, upper=1.0)
    refuse(MACHINE, "kind: jnt_type of 'elbow' is the same in all models", kind)
    fixed = block.replace('</worldbody>', '<body name="wall"><geom size="1"/></body></worldbody>')
    moved = Parameter('wall_x', 'body_pos', 'wall', lower=-1.0)
    refuse(fixed, "wall_x: body_pos of 'wall' is the same in all models", moved)
    refuse(block.replace('elliptic', 'pyramidal'), 'flag diagexact together with a pyramidal cone')
    refuse(block.replace('dense', 'sparse'), 'flag diagexact together with sparse Jacobians')
    refuse(block.replace('<flag', '<flag fwdinv="enable"', 1), 'mjENBL_FWDINV is unsupported')


UNCERTAIN_TYPES = {'panda_cabinet', 'panda_drawer'}
SHIPPED = paths.available('tasks')


@with_warp
@pytest.mark.parametrize('name', SHIPPED)
def test_every_shipped_task_is_simulated_unless_joint_types_are_uncertain(name):
    task = load_task(name)
    if name in UNCERTAIN_TYPES:
        with pytest.raises(SceneError, match='jnt_articulation of .* is the same in all models'):
            Ensemble(task.model, task.parameters, 2, device='warp-cpu')
    else:
        Ensemble(task.model, task.parameters, 2, device='warp-cpu')


@with_warp
@pytest.mark.parametrize('name', ['push_t', 'ur5e_push', 'halfcheetah_backflip'])
def test_shipped_tasks_move_as_in_mujoco(name):
    task, rng, steps = load_task(name), np.random.default_rng(1), 20
    pair = _both(task.model, task.parameters, task.prior.sample(3, np.random.default_rng(0)))
    limits = task.robot.control_limits(task.planner.step_s)
    targets = rng.uniform(limits.lower, limits.upper, (3, 2, 1, len(limits.lower)))
    ramps = task.map.controls(0.3 * targets * np.linspace(0.0, 1.0, steps)[:, None])
    ours, warps = (e.rollout(task.start(), ramps, ('qpos',)).fields['qpos'] for e in pair)
    np.testing.assert_allclose(warps, ours, atol=FREE, rtol=0)
    assert np.ptp(ours[:, :, -1], axis=(0, 1)).max() > 0.01  # m or rad


@with_warp
def test_a_field_that_warp_does_not_compute_is_refused_by_name():
    ensemble = Ensemble(mujoco.MjModel.from_xml_string(MACHINE), (), 1, device='warp-cpu')
    with pytest.raises(SceneError, match='does not compute bvh_aabb_dyn: set `device: cpu`'):
        ensemble.rollout(State(np.zeros(2), np.zeros(2)), np.zeros((1, 1, 3, 2)), ['bvh_aabb_dyn'])


@with_warp
def test_parameters_out_of_bounds_are_refused_as_on_the_cpu():
    model = mujoco.MjModel.from_xml_string(MACHINE)
    mass = Parameter('mass', 'body_mass', 'lower', lower=0.01)
    with pytest.raises(ParameterError, match='mass: -1 is not within'):
        Ensemble(model, [mass], 1, device='warp-cpu').write(np.array([[-1.0]]))


@with_warp
@without_gpu
@pytest.mark.parametrize('name', ['cuda', 'cuda:3'])
def test_a_gpu_that_is_not_here_is_an_error_with_a_remedy(name):
    match = f'device: {name}: .* only cpu: check the driver .* `device: cpu`'
    with pytest.raises(ConfigError, match=match):
        Ensemble(mujoco.MjModel.from_xml_string(MACHINE), (), 1, device=name)


def test_without_warp_an_error_says_how_to_install_it(monkeypatch):
    monkeypatch.delitem(sys.modules, 'emppi_ros.model.warp_batch', raising=False)
    monkeypatch.setitem(sys.modules, 'mujoco_warp', None)
    match = r"device: cuda: MuJoCo Warp is not installed .*: pip install 'emppi_ros\[warp\]'"
    with pytest.raises(ConfigError, match=match):
        Ensemble(mujoco.MjModel.from_xml_string(MACHINE), (), 1, device='cuda')


def _task(name, planner='cpu', belief='cpu'):
    data = dict(load_task(name).data)
    data['planner'] = data['planner'] | {'device': planner}
    data['belief'] = data['belief'] | {'device': belief}
    return parse_task(yaml.safe_dump(data), name)


def test_a_task_names_the_device():
    assert load_task('cartpole_swingup').planner.device == 'cpu'
    task = _task('cartpole_swingup', 'cuda:1', 'cuda')
    assert (task.planner.device, task.belief.device) == ('cuda:1', 'cuda')
    with pytest.raises(ConfigError, match="device: found 'gpu', expected cpu, cuda, cuda:0"):
        _task('cartpole_swingup', 'gpu')


@with_warp
def test_a_planner_on_warp_plans_as_one_on_mujoco():
    plans = []
    for device in ('cpu', 'warp-cpu'):
        task = _task('cartpole_swingup', device)
        planner = Planner(task, seed=1)
        theta = task.prior.sample(planner.ensemble.models, np.random.default_rng(2))
        planner.set_belief(Belief(theta, np.full(len(theta), -np.log(len(theta)))))
        for cycle in range(3):
            plan, info = planner.plan_from(
                task.start(), 0.1 * cycle, 0.1 * cycle, command_series.held(np.zeros(1))
            )
        plans.append((planner._controls, info.costs))
    (ours, costs), (warps, warp_costs) = plans
    # costs sum 60 steps; weights divide them by the temperature
    np.testing.assert_allclose(warp_costs, costs, rtol=1e-4)
    np.testing.assert_allclose(warps, ours, atol=0.01 * np.abs(ours).max(), rtol=0)


@with_warp
def test_a_belief_on_warp_learns_as_one_on_mujoco():
    means = []
    for device in ('cpu', 'warp-cpu'):
        task = _task('cartpole_swingup', 'cpu', device)
        loop = ClosedLoop(task, seed=5)
        loop.run(0.3, stop_at_success=False)
        belief = loop.filter.belief
        means.append(np.exp(belief.log_weights) @ belief.theta)
    np.testing.assert_allclose(means[1], means[0], rtol=0.02)
