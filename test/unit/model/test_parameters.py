"""A parameter write is compiling the MJCF with that value, and touches nothing else."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.core.errors import ConfigError, ParameterError, SceneError
from emppi_ros.model import scene
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.model.fields import DELAY, NOT_IN_MODEL, STRIBECK
from emppi_ros.model.parameters import (
    FIELDS,
    Parameter,
    check,
    nominal_values,
    not_simple,
    with_parameters,
    write,
)

# Two bodies in a chain so that every property matters, and a ball that slides and spins
# on a floor. that slides and spins on a floor.
XML = """
<mujoco><option timestep="0.004" cone="elliptic" gravity="{gravity}"/>
  <worldbody>
    <geom name="floor" type="plane" size="3 3 0.1"/>
    <body name="a" pos="0 0 2">
      <joint name="j" type="{type}" axis="{axis}" pos="{pos}" damping="{damping}"
             stiffness="{stiffness}" springref="{springref}" armature="{armature}"
             frictionloss="{frictionloss}"/>
      <inertial pos="{ipos}" mass="{mass}" {full}="{inertia}"/>
      <geom name="a" type="box" size="0.1 0.2 0.3" contype="0" conaffinity="0"/>
      <body name="b" pos="{place}">
        <joint name="k" type="hinge" axis="0 1 0" armature="0.01"/>
        <geom name="b" type="capsule" fromto="0 0 0 0.3 0.1 0" size="0.05" mass="{geom_mass}"
              contype="0" conaffinity="0"/>
      </body>
    </body>
    <body name="c" pos="0 0 0.0995"><freejoint name="free"/>
      <inertial pos="0 0 0" mass="0.5" diaginertia="0.002 0.002 0.002"/>
      <geom name="c" type="sphere" size="{size}" friction="{friction}" priority="1"
            condim="6" solref="{solref}" solimp="{solimp}"/>
    </body>
  </worldbody>
  <tendon>
    <fixed name="cord" springlength="0" stiffness="{cord}" damping="{cord_damping}"
           frictionloss="{cord_friction}">
      <joint joint="j" coef="1"/><joint joint="k" coef="0.5"/>
    </fixed>
  </tendon>
  <actuator>
    <position name="servo" joint="j" kp="{kp}"/>
    <motor name="motor" joint="k" gear="{gear}"/>
  </actuator>
</mujoco>
"""
NOMINAL = {
    'type': 'hinge',
    'axis': '0 1 0',
    'pos': '0 0 0',
    'damping': 0.1,
    'stiffness': 1,
    'armature': 0.01,
    'frictionloss': 0,
    'ipos': '0 0 0',
    'mass': 1,
    'full': 'diaginertia',
    'inertia': '0.02 0.04 0.03',
    'geom_mass': 0.3,
    'place': '0.1 0 0.5',
    'friction': '0.5 0.005 0.001',
    'solref': '0.02 1',
    'kp': 10,
    'gravity': '0 0 -9.81',
    'springref': 0,
    'size': 0.1,
    'solimp': '0.9 0.95 0.001 0.5 2',
    'cord': 0.1,
    'cord_damping': 0.01,
    'cord_friction': 0,
    'gear': 2,
}


def _gravity(tilt):
    """Return gravity in the frame of a base that is turned by a rotation vector."""
    return Rotation.from_rotvec(tilt).inv().apply([0.0, 0.0, -9.81])


_MATRIX = 0.05, 0.07, 0.06, 0.01, -0.008, 0.004
# field -> (places and values written), (the attributes that say the same)
CASES = {
    'body_mass': ([('body_mass', 'a', 0, 2.0)], {'mass': 2, 'inertia': '0.04 0.08 0.06'}),
    'body_inertia': ([('body_inertia', 'a', 0, 0.08)], {'inertia': '0.04 0.08 0.06'}),
    'body_fullinertia': (
        [('body_fullinertia', 'a', i, value) for i, value in enumerate(_MATRIX)]
        + [('jnt_axis', 'j', 0, 1.0), ('jnt_axis', 'j', 2, -2.0)],
        {'full': 'fullinertia', 'inertia': ' '.join(map(str, _MATRIX)), 'axis': '1 1 -2'},
    ),
    'body_fullinertia of one element': (
        [('body_fullinertia', 'a', 4, 0.01), ('jnt_axis', 'j', 0, 1.0), ('jnt_axis', 'j', 2, 1.0)],
        {'full': 'fullinertia', 'inertia': '0.02 0.04 0.03 0 0.01 0', 'axis': '1 1 1'},
    ),
    'body_mass with inertia': (
        [('body_inertia', 'a', 0, 0.06), ('body_mass', 'a', 0, 3.0)],
        {'mass': 3, 'inertia': '0.03 0.06 0.045'},
    ),
    'body_pos': (
        [('body_pos', 'b', 0, -0.2), ('body_pos', 'b', 2, 0.8)],
        {'place': '-0.2 0 0.8'},
    ),
    'body_ipos x': ([('body_ipos', 'a', 0, 0.1)], {'ipos': '0.1 0 0'}),
    'body_ipos y z': (
        [('body_ipos', 'a', 1, 0.05), ('body_ipos', 'a', 2, -0.2)],
        {'ipos': '0 0.05 -0.2'},
    ),
    'geom_friction sliding': ([('geom_friction', 'c', 0, 0.1)], {'friction': '0.1 0.005 0.001'}),
    'geom_friction torsion': ([('geom_friction', 'c', 1, 0.2)], {'friction': '0.5 0.2 0.001'}),
    'geom_friction rolling': ([('geom_friction', 'c', 2, 0.02)], {'friction': '0.5 0.005 0.02'}),
    'geom_solref': (
        [('geom_solref', 'c', 0, 0.05), ('geom_solref', 'c', 1, 0.3)],
        {'solref': '0.05 0.3'},
    ),
    'jnt_type': ([('jnt_type', 'j', 0, 0.0)], {'type': 'slide'}),
    'jnt_axis': (
        [('jnt_axis', 'j', 0, 1.0), ('jnt_axis', 'j', 1, 0.5), ('jnt_axis', 'j', 2, -2.0)],
        {'axis': '1 0.5 -2'},
    ),
    'jnt_axis of one element': ([('jnt_axis', 'j', 0, 2.0)], {'axis': '2 1 0'}),
    'jnt_axis of a slide': (
        [('jnt_type', 'j', 0, 0.2), ('jnt_axis', 'j', 2, 1.0)],
        {'type': 'slide', 'axis': '0 1 1'},
    ),
    'jnt_articulation that slides': (
        [('jnt_articulation', 'j', 0, 2.0)],
        {'type': 'slide', 'axis': '2 1 0'},
    ),
    'jnt_articulation that turns': (
        [('jnt_articulation', 'j', 0, 0.4), ('jnt_articulation', 'j', 2, -2.0)],
        {'axis': '0.4 1 -2'},
    ),
    'jnt_pos': ([('jnt_pos', 'j', 0, 0.2), ('jnt_pos', 'j', 2, -0.1)], {'pos': '0.2 0 -0.1'}),
    'jnt_stiffness': ([('jnt_stiffness', 'j', 0, 30.0)], {'stiffness': 30}),
    'dof_damping': ([('dof_damping', 'j', 0, 3.0)], {'damping': 3}),
    'dof_frictionloss': ([('dof_frictionloss', 'j', 0, 0.7)], {'frictionloss': 0.7}),
    'dof_armature': ([('dof_armature', 'j', 0, 0.5)], {'armature': 0.5}),
    'geom_solimp': (
        [('geom_solimp', 'c', 0, 0.3), ('geom_solimp', 'c', 2, 0.01)],
        {'solimp': '0.3 0.95 0.01 0.5 2'},
    ),
    'geom_size': ([('geom_size', 'c', 0, 0.102)], {'size': 0.102}),
    'jnt_springref': ([('jnt_springref', 'j', 0, 0.5)], {'springref': np.degrees(0.5)}),
    'tendon_stiffness': ([('tendon_stiffness', 'cord', 0, 3.0)], {'cord': 3}),
    'tendon_damping': ([('tendon_damping', 'cord', 0, 0.5)], {'cord_damping': 0.5}),
    'tendon_frictionloss': ([('tendon_frictionloss', 'cord', 0, 0.2)], {'cord_friction': 0.2}),
    'actuator_gear': ([('actuator_gear', 'motor', 0, 3.0)], {'gear': 3}),
    'gravity': (
        [('gravity', '', 0, 1.0), ('gravity', '', 2, -9.0)],
        {'gravity': '1 0 -9'},
    ),
    'tilt': (
        [('tilt', '', 1, -0.2), ('tilt', '', 0, 0.3)],
        {'gravity': '{!r} {!r} {!r}'.format(*_gravity([0.3, -0.2, 0.0]).tolist())},
    ),
    'tilt about y': (
        [('tilt', '', 1, 0.1)],
        {'gravity': '{!r} {!r} {!r}'.format(*_gravity([0.0, 0.1, 0.0]).tolist())},
    ),
    'actuator_gain': ([('actuator_gain', 'servo', 0, 25.0)], {'kp': 25}),
}


def _compile(**changes):
    return mujoco.MjModel.from_xml_string(XML.format(**{**NOMINAL, **changes}))


def _parameter(name, field, of, element=0):
    if FIELDS[field].floor < -1e-3:
        bounds = np.clip([-10.0, 99.0], FIELDS[field].floor, FIELDS[field].ceiling)
        return Parameter(name, field, of, element, *bounds)
    return Parameter(name, field, of, element, 1e-4 if FIELDS[field].floor == 0.0 else 0.0, 99.0)


def _parameters(writes):
    parameters = [_parameter(f'p{i}', *write[:3]) for i, write in enumerate(writes)]
    return parameters, np.array([write[-1] for write in writes])


def _start(model):
    qvel = np.zeros(model.nv)
    qvel[:2] = 0.5, -0.4
    qvel[2:] = 1.0, 0.3, 0.0, 2.0, -1.0, 5.0
    return State(model.qpos0.copy(), qvel)


STEPS = 150
CONTROL = np.column_stack([np.linspace(0.3, -0.5, STEPS), np.sin(np.arange(STEPS) / 9.0)])


def _simulate(model):
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = _start(model)
    rows = []
    for control in CONTROL:
        data.ctrl[:] = control
        mujoco.mj_step(model, data)
        rows.append(np.concatenate([data.qpos, data.qvel]))
    return np.array(rows)


def _roll_out(ensemble):
    controls = np.broadcast_to(CONTROL, (ensemble.models, 1, STEPS, 2))
    fields = ensemble.rollout(_start(ensemble.model), controls, ('qpos', 'qvel')).fields
    return np.concatenate([fields['qpos'][:, 0], fields['qvel'][:, 0]], axis=-1)


def test_the_cases_cover_every_registered_field():
    """All but those that are in no model, such as the delay of commands."""
    covered = {write[0] for writes, _ in CASES.values() for write in writes}
    assert covered == set(FIELDS) - set(NOT_IN_MODEL)


@pytest.mark.parametrize('case', CASES)
def test_a_write_changes_a_rollout_exactly_as_the_mjcf_compiled_with_that_value(case):
    writes, attributes = CASES[case]
    parameters, theta = _parameters(writes)
    nominal, compiled = _compile(), _simulate(_compile(**attributes))
    written = _simulate(with_parameters(nominal, parameters, theta))
    # a written value goes through the same arithmetic as a compiled one, except for scaled
    # inertias and gains, whose product is rounded once (2^-53); 150 smooth steps amplify that
    # by less than 1e3
    np.testing.assert_allclose(written, compiled, rtol=0, atol=1e-12)
    assert np.abs(written - _simulate(nominal)).max() > 1e-3


@pytest.mark.parametrize('case', CASES)
def test_the_batch_writes_what_with_parameters_writes(case):
    writes, _ = CASES[case]
    parameters, theta = _parameters(writes)
    model = _compile()
    ensemble = Ensemble(model, parameters, 2, threads=1)
    ensemble.write(np.stack([nominal_values(parameters, model), theta]))
    rolled = _roll_out(ensemble)
    assert np.array_equal(rolled[1], _simulate(with_parameters(model, parameters, theta)))
    assert np.array_equal(rolled[0], _simulate(model))


def _inertia(model):
    """Return the inertia matrices of bodies, which round to 1e-17 here."""
    axes = Rotation.from_quat(model.body_iquat, scalar_first=True).as_matrix()
    return (axes * model.body_inertia[:, None]) @ axes.swapaxes(1, 2)


@pytest.mark.parametrize('case', CASES)
def test_only_the_target_changes(case):
    writes, attributes = CASES[case]
    parameters, theta = _parameters(writes)
    nominal = _compile()
    before = {name: np.array(getattr(nominal, name)) for name in _arrays(nominal)}
    changed, compiled = with_parameters(nominal, parameters, theta), _compile(**attributes)
    if 'full' in attributes:  # axes have no order and no sign: the matrices are compared
        ours, theirs = (_inertia(model) for model in (changed, compiled))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-15)
        for name in ('body_inertia', 'body_iquat'):
            getattr(changed, name)[:] = getattr(compiled, name)
    for name, values in before.items():
        assert np.array_equal(getattr(nominal, name), values, equal_nan=True), name  # a copy
        ours, theirs = np.array(getattr(changed, name)), np.array(getattr(compiled, name))
        # every field, written or derived, is that of the compiled model up to one rounding; the
        # boxes of the collision tree are not derived again
        if values.dtype.kind == 'f' and name != 'bvh_aabb':
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12, err_msg=name)


def _arrays(model):
    skip = ('names', 'paths', 'text', 'tex', 'mesh', 'hfield', 'skin', 'signature')
    names = [name for name in dir(model) if name[0] != '_' and not name.startswith(skip)]
    return [name for name in names if isinstance(getattr(model, name), np.ndarray)]


def test_mass_of_a_geom_is_the_mass_of_its_body():
    parameters, theta = _parameters([('body_mass', 'b', 0, 1.7)])
    written = _simulate(with_parameters(_compile(), parameters, theta))
    # the compiler derives the inertia from the volume, we scale it: one rounding, as above
    np.testing.assert_allclose(written, _simulate(_compile(geom_mass=1.7)), rtol=0, atol=1e-12)


def test_feedback_of_a_servo_scales_with_its_gain():
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><joint name="j" type="slide"/><geom size="1"/></body>'
        '</worldbody><actuator><position name="p" joint="j" kp="10" kv="3"/>'
        '<velocity name="v" joint="j" kv="4"/><motor name="m" joint="j"/></actuator></mujoco>'
    )
    parameters = [Parameter(n, 'actuator_gain', n, lower=0.1) for n in 'pvm']
    changed = with_parameters(model, parameters, np.array([20.0, 6.0, 2.0]))
    assert changed.actuator_biasprm[:, :3].tolist() == [[0, -20, -6], [0, 0, -6], [0, 0, 0]]
    assert changed.actuator_gainprm[:, 0].tolist() == [20.0, 6.0, 2.0]


def test_writing_nominal_values_changes_no_rollout():
    parameters = [
        _parameter(f'{field}{of}', field, of)
        for field, of in [
            ('body_mass', 'a'),
            ('geom_friction', 'c'),
            ('dof_damping', 'j'),
            ('jnt_axis', 'j'),
            ('jnt_type', 'j'),
            ('actuator_gain', 'servo'),
            ('body_ipos', 'a'),
            ('jnt_stiffness', 'j'),
            ('dof_armature', 'j'),
        ]
    ]
    model = _compile()
    same = with_parameters(model, parameters, nominal_values(parameters, model))
    assert np.array_equal(_simulate(same), _simulate(model))


def test_an_axis_may_be_one_of_a_few():
    choices = ((-1.0, 0.0, 0.0), (0.0, 0.0, 2.0))
    parameter = Parameter('axis', 'jnt_axis', 'j', 0, 0.0, 2.0, '', choices)
    for value, axis in ((0.0, '-1 0 0'), (0.99, '-1 0 0'), (1.0, '0 0 1'), (2.0, '0 0 1')):
        changed = with_parameters(_compile(), [parameter], np.array([value]))
        assert np.array_equal(_simulate(changed), _simulate(_compile(axis=axis)))
        # what a model has is the choice that it was given
        assert int(nominal_values([parameter], changed)[0]) == int(value >= 1.0)


@pytest.mark.parametrize(
    ('field', 'upper', 'choices', 'match'),
    [
        ('jnt_pos', 1.0, ((1.0, 0.0, 0.0),), 'choices: only jnt_axis has choices, not jnt_pos'),
        (
            'jnt_axis',
            1.0,
            ((1.0, 0.0),),
            r'found \[1.0, 0.0\], expected a nonzero',
        ),
        (
            'jnt_axis',
            1.0,
            ((0.0, 0.0, 0.0),),
            r'choices: found \[0.0, 0.0, 0.0\]',
        ),
        ('jnt_axis', 3.0, ((1.0, 0.0, 0.0),), 'found 0, 3; expected 0, 1 for 1 choices'),
    ],
)
def test_choices_that_make_no_sense_are_errors(field, upper, choices, match):
    with pytest.raises(ConfigError, match=match):
        Parameter('axis', field, 'j', 0, 0.0, upper, '', choices)


@pytest.mark.parametrize('value', [np.nan, np.inf, -np.inf, 0.0, 5.1])
def test_values_beyond_bounds_or_not_finite_are_errors_that_name_the_parameter(value):
    parameter = Parameter('mass of a', 'body_mass', 'a', 0, 0.1, 5.0, 'kg')
    model = _compile()
    with pytest.raises(ParameterError, match='mass of a: .* is not within'):
        with_parameters(model, [parameter], np.array([value]))
    ensemble = Ensemble(model, [parameter], 2)
    with pytest.raises(ParameterError, match='mass of a'):
        ensemble.write(np.array([[1.0], [value]]))


@pytest.mark.parametrize(('of', 'kind'), [('nobody', 'body_mass'), ('a', 'jnt_axis')])
def test_unknown_names_list_those_that_exist(of, kind):
    parameter = Parameter('p', kind, of, lower=0.1 if kind == 'body_mass' else -1.0)
    with pytest.raises(SceneError, match='available: .*') as error:
        check([parameter], _compile())
    assert all(name in str(error.value) for name in ('a, b, c',) if kind == 'body_mass')
    assert kind == 'body_mass' or 'free, j, k' in str(error.value)


def test_two_parameters_of_one_place_are_an_error_that_names_both():
    two = [Parameter(name, 'dof_damping', 'j', lower=0.0) for name in ('first', 'second')]
    with pytest.raises(ConfigError, match="'first' and 'second' both write dof_damping of 'j'"):
        check(two, _compile())


def test_an_axis_said_in_two_ways_is_an_error_that_names_both():
    whole = Parameter('whole', 'jnt_axis', 'j', 0, 0.0, 1.0, '', ((1.0, 0.0, 0.0),))
    part = Parameter('part', 'jnt_articulation', 'j', 2, -1.0, 1.0)
    with pytest.raises(ConfigError, match="'whole' and 'part' both write jnt_axis of 'j', elem"):
        check([whole, part], _compile())


@pytest.mark.parametrize(
    ('arguments', 'match'),
    [
        (('nonsense', 'a'), "unknown field 'nonsense'; available: .*body_mass"),
        (('body_mas', 'a'), "did you mean 'body_mass'"),
        (('body_mass', 'a', 1, 0.1), 'element: found 1; body_mass has elements 0 to 0'),
        (('geom_friction', 'a', 3, 0.1), 'elements 0 to 2'),
        (('geom_friction', 'a', -1, 0.1), 'element: found -1'),
        (('body_mass', 'a', 0, 2.0, 1.0), 'lower: found 2.0, which is not below upper 1.0'),
        (('body_mass', 'a'), 'lower: body_mass is physical only above 0'),
        (('dof_damping', 'j', 0, -1.0), 'lower: dof_damping is physical only above 0'),
    ],
)
def test_impossible_places_and_bounds_are_errors(arguments, match):
    with pytest.raises(ConfigError, match=match):
        Parameter('p', *arguments)


def test_an_axis_of_length_zero_is_an_error_and_changes_nothing():
    parameters = [Parameter(f'axis {i}', 'jnt_axis', 'j', i) for i in range(3)]
    parameters.append(Parameter('damping', 'dof_damping', 'j', lower=0.0))
    ensemble = Ensemble(_compile(), parameters, 2, threads=1)
    good = np.array([[0.0, 1.0, 0.5, 0.2], [1.0, 1.0, 0.0, 0.4]])
    ensemble.write(good)
    expected = _roll_out(ensemble).copy()
    bad = good.copy()
    bad[1] = 0.0, 0.0, 0.0, 9.0
    with pytest.raises(ParameterError, match="joint 'j': the axis has length zero"):
        ensemble.write(bad)
    ensemble.write(good)
    assert np.array_equal(_roll_out(ensemble), expected)


def test_what_was_written_before_leaves_no_trace():
    parameters, theta = _parameters([('jnt_axis', 'j', 0, 2.0), ('body_mass', 'a', 0, 2.0)])
    ensemble = Ensemble(_compile(), parameters, 2, threads=1)
    for x in (5.0, -3.0, 0.1):
        ensemble.write(np.array([[x, abs(x)], theta]))
    fresh = Ensemble(_compile(), parameters, 2, threads=1)
    fresh.write(np.array([[0.1, 0.1], theta]))
    assert np.array_equal(_roll_out(ensemble), _roll_out(fresh))


TILTS = [Parameter(f'about {axis}', 'tilt', '', i, -0.5, 0.5) for i, axis in enumerate('xy')]


@pytest.mark.parametrize('parameters', [TILTS, TILTS[::-1], TILTS[:1], TILTS[1:]])
def test_a_tilt_is_read_as_it_was_written_whatever_was_written_before(parameters):
    model = _compile(gravity='{!r} {!r} {!r}'.format(*_gravity([0.2, 0.1, 0.0]).tolist()))
    rng, fields = np.random.default_rng(0), {'opt.gravity': model.opt.gravity.copy()[None]}
    for theta in rng.uniform(-0.5, 0.5, (20, len(parameters))):
        write(fields.__getitem__, model, parameters, theta[None])
        changed = with_parameters(model, parameters, theta)
        # rounding of numbers below 10, a few times in each of 20 writes
        np.testing.assert_allclose(fields['opt.gravity'][0], changed.opt.gravity, atol=1e-12)
        np.testing.assert_allclose(nominal_values(parameters, changed), theta, atol=1e-13)
        np.testing.assert_allclose(np.linalg.norm(changed.opt.gravity), 9.81, rtol=1e-14)


def test_a_tilt_and_gravity_are_not_both_unknown():
    down = Parameter('down', 'gravity', '', 2)
    words = r"'about x' \(tilt\) and 'down' \(gravity\) both turn gravity: leave one"
    with pytest.raises(ConfigError, match=words):
        check([down, TILTS[0]], _compile())


@pytest.mark.parametrize('gravity', ['0 -9.81 0', '0 0 0', '0 0 9.81'])
def test_a_tilt_is_of_a_scene_whose_gravity_points_down(gravity):
    with pytest.raises(
        SceneError, match='about x: tilt turns gravity .* along -z.*take the field'
    ):
        check(TILTS, _compile(gravity=gravity))
    with pytest.raises(ConfigError, match='lower: tilt is physical only above -1; found -inf'):
        Parameter('tilt', 'tilt', '', 0, upper=0.5)


def test_stribeck_friction_is_for_inverse_dynamics_only_and_has_two_numbers():
    of_j = [Parameter(field, field, 'j', lower=0.1) for field in STRIBECK]
    check(of_j, _compile(), simulated=False)
    words = 'stribeck_friction: MuJoCo does not simulate it, .*--method states.*dof_frictionloss'
    for refuse in (lambda: check(of_j, _compile()), lambda: Ensemble(_compile(), of_j, 2)):
        with pytest.raises(ConfigError, match=words):
            refuse()
    for given, missing in (of_j, of_j[::-1]):
        with pytest.raises(ConfigError, match=f"{given.name} of 'j' needs {missing.name} of 'j'"):
            check([given], _compile(), simulated=False)
    with pytest.raises(ConfigError, match='lower: stribeck_velocity is physical only above 0.001'):
        Parameter('speed', STRIBECK[1], 'j', lower=0.0)


def test_a_delay_of_commands_changes_no_model():
    theta = np.array([0.03])
    delay, model = Parameter('delay', DELAY, '', lower=0.0, upper=0.1), _compile()
    check([delay], model)
    assert np.array_equal(_simulate(with_parameters(model, [delay], theta)), _simulate(model))
    assert nominal_values([delay], model).tolist() == [0.0]


def test_the_delay_of_each_model_is_what_was_written():
    parameters = [Parameter('m', 'body_mass', 'a', 0, 0.1, 9.0),
                  Parameter('delay', DELAY, '', lower=0.0, upper=0.1)]  # fmt: skip
    ensemble = Ensemble(_compile(), parameters, 2, threads=1)
    ensemble.write(np.array([[1.0, 0.02], [2.0, 0.0]]))
    assert ensemble.delays.tolist() == [0.02, 0.0]
    assert Ensemble(_compile(), parameters[:1], 2, threads=1).delays is None


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        ((DELAY, 'servo', 0, 0.0, 0.1), "of: found 'servo'; command_delay belongs to no object"),
        ((DELAY, '', 0, -0.01, 0.1), 'lower: command_delay is physical only above 0'),
        (
            (DELAY, '', 0, 0.0),
            r'upper: command_delay is at most 0.5 s; found inf \(give `upper`\)',
        ),
        (('body_mass', '', 0, 0.1), 'of: missing; body_mass needs the name of a body'),
    ],
)
def test_a_delay_has_bounds_and_no_object(arguments, words):
    with pytest.raises(ConfigError, match=words):
        Parameter('p', *arguments)


def test_there_is_one_delay_of_commands():
    twice = [Parameter(name, DELAY, '', lower=0.0, upper=0.1) for name in ('a', 'b')]
    with pytest.raises(ConfigError, match="parameters 'a' and 'b' both write command_delay$"):
        check(twice, _compile())


SYMMETRIC = """
<mujoco><worldbody><geom type="plane" size="3 3 0.1"/>
  <body name="ball" pos="0 0 0.3"><freejoint name="free"/>
    <geom type="box" size="0.1 0.1 0.1" mass="1"/></body>
  <body name="stage" pos="2 0 1"><joint name="x" type="slide" axis="1 0 0"/>
    <joint name="z" type="slide"/><geom size="0.1" contype="0" conaffinity="0"/></body>
</worldbody></mujoco>
"""
COUPLED = {
    'body_ipos': (Parameter('p', 'body_ipos', 'ball', 1), 'ball', 0.04),
    'jnt_axis': (Parameter('p', 'jnt_axis', 'z', 0), 'stage', 0.8),
}


def _fall(model):
    data = mujoco.MjData(model)
    for _ in range(200):
        mujoco.mj_step(model, data)
    return np.concatenate([data.qpos, data.qvel])


@pytest.mark.parametrize('case', COUPLED)
def test_symmetric_bodies_take_parameters_that_couple_their_axes(case, tmp_path):
    parameter, body, value = COUPLED[case]
    path = tmp_path / 'scene.xml'
    path.write_text(SYMMETRIC)
    places = not_simple([(parameter.field, parameter.of)])
    model = scene.load_scene(path, not_simple=places)
    spec = mujoco.MjSpec.from_file(str(path))
    if case == 'body_ipos':
        one, nominal = spec.body(body), spec.compile().body(body)
        one.explicitinertial = True
        one.mass, one.inertia, one.ipos = nominal.mass[0], nominal.inertia, [0.0, value, 0.0]
    else:
        spec.joint('z').axis = [value, 0.0, 1.0]
    compiled = spec.compile()
    ensemble = Ensemble(model, [parameter], 1)
    ensemble.write(np.array([[value]]))
    changed = with_parameters(model, [parameter], np.array([value]))
    # compiled with the value, up to rounding that 200 steps amplify by less than 1e3
    np.testing.assert_allclose(_fall(changed), _fall(compiled), rtol=0, atol=1e-12)
    assert np.abs(_fall(changed) - _fall(model)).max() > 1e-3


@pytest.mark.parametrize('case', COUPLED)
def test_a_compiled_symmetric_body_is_an_error_that_says_what_to_set(case):
    parameter, body, _ = COUPLED[case]
    model = mujoco.MjModel.from_xml_string(SYMMETRIC)
    with pytest.raises(SceneError, match=f'p: of: body {body!r} is .* set simple="false"'):
        Ensemble(model, [parameter], 1)


@pytest.mark.parametrize('field', ['jnt_type', 'jnt_axis', 'jnt_articulation'])
def test_only_hinges_and_slides_have_an_uncertain_axis(field):
    with pytest.raises(SceneError, match="p: of: joint 'free' is not a hinge or slide"):
        check([_parameter('p', field, 'free')], _compile())


def test_values_that_mujoco_rejects_are_an_error_that_names_them():
    model = mujoco.MjModel.from_xml_string(SYMMETRIC)
    parameter = COUPLED['body_ipos'][0]  # not checked against the model here
    with pytest.raises(ParameterError, match='MuJoCo rejects p 0.04: .*simple'):
        with_parameters(model, [parameter], np.array([0.04]))


@pytest.mark.parametrize('field', ['body_mass', 'body_inertia'])
def test_a_mass_that_is_0_in_the_scene_is_refused(field):
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><joint/><geom size="0.1"/>'
        '<body name="load"><geom size="0.1" mass="0"/></body></body></worldbody></mujoco>'
    )
    with pytest.raises(SceneError, match=f"p: of: {field} of 'load' is 0 in the scene.*give it"):
        check([Parameter('p', field, 'load', lower=0.1)], model)


@pytest.mark.parametrize('shape', ['sphere', 'capsule', 'cylinder', 'ellipsoid', 'box'])
def test_sizes_of_every_primitive_are_those_of_the_compiled_model(shape):
    def compiled(sizes):
        return mujoco.MjModel.from_xml_string(
            f'<mujoco><worldbody><body><freejoint/><geom name="g" type="{shape}" mass="1" '
            f'size="{" ".join(map(str, sizes))}"/></body></worldbody></mujoco>'
        )

    count = {'sphere': 1, 'capsule': 2, 'cylinder': 2}.get(shape, 3)
    sizes, others = [0.1, 0.2, 0.3][:count], [0.15, 0.22, 0.1][:count]
    parameters = [Parameter(f'p{i}', 'geom_size', 'g', i, 0.01, 1.0) for i in range(count)]
    changed, expected = (
        with_parameters(compiled(sizes), parameters, np.array(others)),
        compiled(others),
    )
    for field in ('geom_size', 'geom_aabb', 'geom_rbound'):
        ours, theirs = getattr(changed, field), getattr(expected, field)
        if field == 'geom_rbound':  # a sphere around the box: never smaller than the compiler's
            assert np.all(ours >= theirs - 1e-12)
        else:
            np.testing.assert_allclose(ours, theirs, atol=1e-12, err_msg=field)
    # the collision tree may be wider, and must not be narrower
    assert np.all(changed.bvh_aabb[:, 3:] >= expected.bvh_aabb[:, 3:] - 1e-12)
    with pytest.raises((SceneError, ConfigError), match='element'):
        check([Parameter('p', 'geom_size', 'g', count, 0.01, 1.0)], compiled(sizes))


def test_an_inertia_matrix_excludes_what_else_writes_it_and_moments_below_zero():
    model = _compile()
    xy = Parameter('xy', 'body_fullinertia', 'a', 3, -1.0, 1.0)
    for field in ('body_inertia', 'body_mass'):
        other = _parameter('other', field, 'a')
        with pytest.raises(ConfigError, match="'other' and 'xy' both write the inertia of 'a'"):
            check((other, xy), model)
    whole = [Parameter(f'{i}', 'body_fullinertia', 'a', i, -1.0, 1.0) for i in range(6)]
    check((_parameter('mass', 'body_mass', 'a'), *whole), model)
    with pytest.raises(ParameterError, match='inertia of a: found a principal moment of -'):
        with_parameters(model, (xy,), np.array([0.5]))
