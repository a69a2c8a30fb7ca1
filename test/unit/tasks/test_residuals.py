"""Each residual against MuJoCo's own numbers in random states."""

import mujoco
import numpy as np
import pytest

from emppi_ros.core.errors import ConfigError, SceneError
from emppi_ros.tasks.cost import bind_residual
from emppi_ros.tasks.residuals import RESIDUALS


def _state(model, seed=0):
    rng = np.random.default_rng(seed)
    data = mujoco.MjData(model)
    data.qpos[:] = model.qpos0 + rng.normal(0.0, 0.4, model.nq)
    data.qvel[:] = rng.normal(0.0, 1.0, model.nv)
    data.ctrl[:] = rng.normal(0.0, 0.5, model.nu)
    mujoco.mj_normalizeQuat(model, data.qpos)
    mujoco.mj_forward(model, data)
    return data


def _value(model, data, residual):
    bound = bind_residual(model, residual, 'here')
    fields = {name: np.array(getattr(data, name)) for name in bound.fields}
    value = bound.evaluate(fields)
    # with leading axes the same, for every entry
    stacked = bound.evaluate({name: np.stack([[f, f]] * 3) for name, f in fields.items()})
    assert stacked.shape == (3, 2, *value.shape)
    assert np.array_equal(stacked[2, 1], value)
    return value


def _behind(d):
    push = (d.body('block').xpos - d.site('pusher').xpos)[:2]
    goal = (d.site('goal').xpos - d.body('block').xpos)[:2]
    turned = np.arctan2(push[0] * goal[1] - push[1] * goal[0], push @ goal)
    return [1.0 - np.cos(turned)]


def _push_point(d):
    away = np.append((d.body('block').xpos - d.site('goal').xpos)[:2], 0.0)
    point = d.body('block').xpos + 0.2 * away / np.linalg.norm(away)
    return (point - d.site('pusher').xpos)[:2]


BLOCK_CASES = {
    'distance': (
        {'of': 'site:pusher', 'to': 'body:block'},
        lambda d: d.body('block').xpos - d.site('pusher').xpos,
    ),
    'distance of some axes': (
        {'residual': 'distance', 'of': 'geom:block', 'to': 'goal', 'axes': 'zx'},
        lambda d: (d.site('goal').xpos - d.geom('block').xpos)[[2, 0]],
    ),
    'distance to a point': (
        {'residual': 'distance', 'of': 'goal', 'point': [0.1, 0.2, 0.3], 'axes': 'xz'},
        lambda d: (np.array([0.1, 0.2, 0.3]) - d.site('goal').xpos)[[0, 2]],
    ),
    'distances': (
        {'of': ['site:pusher', 'goal'], 'to': ['body:block', 'site:pusher'], 'axes': 'xy'},
        lambda d: (
            np.concatenate(
                [
                    (d.body('block').xpos - d.site('pusher').xpos)[:2],
                    (d.site('pusher').xpos - d.site('goal').xpos)[:2],
                ]
            )
            / np.sqrt(2.0)
        ),
    ),
    'height': ({'of': 'body:block', 'value': 0.3}, lambda d: [d.body('block').xpos[2] - 0.3]),
    'behind': ({'pusher': 'site:pusher', 'of': 'body:block', 'target': 'goal'}, _behind),
    'push_point': (
        {'pusher': 'site:pusher', 'of': 'body:block', 'target': 'goal', 'offset': 0.2},
        _push_point,
    ),
    'tilt': (
        {'of': 'body:block', 'axis': 'y', 'to': [0, 3, 4]},
        lambda d: d.body('block').xmat.reshape(3, 3)[:, 1] - [0.0, 0.6, 0.8],
    ),
    'tilt along one axis': (
        {'residual': 'tilt', 'of': 'body:block', 'axis': 'x', 'to': [1, 0, 0], 'axes': 'z'},
        lambda d: d.body('block').xmat.reshape(3, 3)[2:, 0],
    ),
    'control': ({}, lambda d: d.ctrl),
}
ARM_CASES = {
    'joint_position': (
        {'joints': ['elbow', 'shoulder'], 'targets': [0.5, -1.0]},
        lambda d: [d.joint('elbow').qpos[0] - 0.5, d.joint('shoulder').qpos[0] + 1.0],
    ),
    'joint_angle': (
        {'joint': 'elbow', 'target': 0.7},
        lambda d: [2.0 * np.sin(0.5 * (d.joint('elbow').qpos[0] - 0.7))],
    ),
    'opening': (
        {'joint': 'elbow', 'least': 0.3},
        lambda d: [max(0.0, 0.3 - abs(d.joint('elbow').qpos[0]))],
    ),
    'joint_velocity': ({'joints': ['elbow']}, lambda d: d.joint('elbow').qvel),
    'sensor': ({'sensor': 'tip_position'}, lambda d: d.site('tip').xpos),
    'sensor of one number': (
        {'residual': 'sensor', 'sensor': 'elbow_speed'},
        lambda d: d.joint('elbow').qvel,
    ),
}


def test_every_residual_is_tested():
    named = {data.get('residual', name) for name, (data, _) in (BLOCK_CASES | ARM_CASES).items()}
    assert named | {'rotation', 'following_error'} == set(RESIDUALS)


@pytest.mark.parametrize('seed', range(3))
def test_a_rotation_is_what_mujoco_turns_by(block, seed):
    state = _state(block, seed)
    found = _value(block, state, {'residual': 'rotation', 'of': 'goal', 'to': 'body:block'})
    first, second = np.empty(4), np.empty(4)
    mujoco.mju_mat2Quat(first, state.site('goal').xmat)
    mujoco.mju_mat2Quat(second, state.body('block').xmat)
    expected = np.empty(3)
    mujoco.mju_subQuat(expected, second, first)
    # through quaternions there and matrices here: some ten roundings of numbers of order 1
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize('name', BLOCK_CASES)
def test_a_residual_of_places_is_what_mujoco_says(block, name, seed):
    data, expected = BLOCK_CASES[name]
    state = _state(block, seed)
    # one subtraction, or one cosine, of numbers of order 1
    np.testing.assert_allclose(
        _value(block, state, {'residual': name, **data}), expected(state), rtol=0, atol=1e-14
    )


@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize('name', ARM_CASES)
def test_a_residual_of_joints_and_sensors_is_what_mujoco_says(two_link, name, seed):
    data, expected = ARM_CASES[name]
    state = _state(two_link, seed)
    np.testing.assert_allclose(
        _value(two_link, state, {'residual': name, **data}), expected(state), rtol=0, atol=1e-14
    )


@pytest.fixture
def servos():
    """Return a model whose two joints are moved by velocity servos, and by other actuators."""
    return mujoco.MjModel.from_xml_string("""<mujoco>
      <worldbody><body><joint name="a"/><geom size="0.1"/>
        <body pos="1 0 0"><joint name="b" axis="0 1 0"/><geom size="0.1"/></body></body>
      </worldbody>
      <actuator>
        <motor joint="a"/><velocity joint="b" kv="3"/><position joint="a" kp="5" kv="2"/>
        <velocity joint="a" kv="7"/>
      </actuator></mujoco>""")


@pytest.mark.parametrize(('joints', 'rows'), [([], [1, 3]), (['b'], [1]), (['a', 'b'], [3, 1])])
def test_the_following_error_is_what_a_servo_pushes_against(servos, joints, rows):
    state = _state(servos)
    found = _value(servos, state, {'residual': 'following_error', 'joints': joints})
    gains = servos.actuator_gainprm[rows, 0]
    # a force is gain (command - velocity): one product and one sum of numbers of order 10
    np.testing.assert_allclose(found, -state.actuator_force[rows] / gains, rtol=0, atol=1e-14)


def test_a_following_error_without_a_velocity_servo_says_which_joints_have_one(servos, two_link):
    for model, joints, words in (
        (servos, ['c'], "joints: unknown joint with a velocity servo 'c'.*available: a, b"),
        (two_link, ['elbow'], 'no joint has a velocity servo'),
        (two_link, [], 'no joint has a velocity servo'),
    ):
        with pytest.raises(SceneError, match=words):
            bind_residual(model, {'residual': 'following_error', 'joints': joints}, 'here')


def test_joint_angle_is_periodic_in_its_size(two_link):
    state = _state(two_link)
    here = _value(two_link, state, {'residual': 'joint_angle', 'joint': 'elbow', 'target': 0.7})
    state.joint('elbow').qpos[0] += 6 * np.pi
    there = _value(two_link, state, {'residual': 'joint_angle', 'joint': 'elbow', 'target': 0.7})
    # an angle near 20 carries 2^-48 of rounding, and so does the sum with 6 pi
    np.testing.assert_allclose(np.abs(there), np.abs(here), rtol=0, atol=1e-13)


def test_behind_is_zero_behind_two_in_front_and_finite_on_top(block):
    state = _state(block)
    behind = {'residual': 'behind', 'pusher': 'site:pusher', 'of': 'body:block', 'target': 'goal'}
    target = state.site('goal').xpos.copy()
    for place, expected in ((-1.0, 0.0), (1.0, 2.0), (0.0, 1.0)):
        state.body('block').xpos[:] = target + [-0.3, 0.0, 0.2]
        state.site('pusher').xpos[:] = target + [-0.3 + 0.2 * place, 0.0, 0.5]
        assert _value(block, state, behind)[0] == pytest.approx(expected, abs=1e-14)  # as above


def test_a_place_is_a_site_before_a_body_before_a_geom_unless_it_says(block):
    state = _state(block)
    for name, expected in (
        ('pusher', state.site('pusher').xpos),
        ('site:pusher', state.site('pusher').xpos),
        ('body:block', state.body('block').xpos),
        ('geom:floor', state.geom('floor').xpos),
        ('floor', state.geom('floor').xpos),
    ):
        height = _value(block, state, {'residual': 'height', 'of': name})
        assert height[0] == expected[2]


@pytest.mark.parametrize(
    ('residual', 'kind', 'match'),
    [
        ({}, ConfigError, "here: missing key 'residual' .*distance.*control"),
        ({'residual': 'distanc'}, ConfigError, "unknown residual 'distanc' .did you mean 'distan"),
        ({'residual': []}, ConfigError, r'here: residual: .*\[\]'),
        ({'residual': None}, ConfigError, 'here: residual: .*None'),
        ({'residual': 'height'}, ConfigError, "here .height.: missing key 'of'"),
        ({'residual': 'height', 'of': 'x'}, SceneError, 'here: unknown site, body or geom .*goal'),
        ({'residual': 'height', 'of': 'bod:x'}, ConfigError, "here.*unknown kind of frame 'bod'"),
        ({'residual': 'height', 'of': 'body:x'}, SceneError, "unknown body 'x'.*block, pusher"),
        ({'residual': 'height', 'of': 'goal', 'to': 1}, ConfigError, "unknown key 'to'"),
        (
            {'residual': 'distance', 'of': 'goal', 'to': 'goal', 'axes': 'xw'},
            ConfigError,
            "axes: found 'xw', expected some of the letters xyz",
        ),
        ({'residual': 'distance', 'of': 'goal', 'to': 'goal', 'axes': ''}, ConfigError, 'axes'),
        ({'residual': 'tilt', 'of': 'goal', 'to': [0, 0, 0]}, ConfigError, 'three numbers'),
        ({'residual': 'tilt', 'of': 'goal', 'axis': 'w'}, ConfigError, 'axis: .* one of x, y, z'),
        ({'residual': 'sensor', 'sensor': 'x'}, SceneError, "here: unknown sensor 'x'.*unused"),
        (
            {'residual': 'joint_velocity', 'joints': ['block']},
            SceneError,
            "'block' is not a hinge or slide",
        ),
        ({'residual': 'joint_velocity', 'joints': ['x']}, SceneError, "joint 'x'.*block, push"),
        (
            {'residual': 'joint_position', 'joints': ['push'], 'targets': [0, 1]},
            ConfigError,
            'here.*targets: 2 values for 1 joints',
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_wrong_residual_is_an_error_that_names_place_and_choice(block, residual, kind, match):
    with pytest.raises(kind, match=match):
        bind_residual(block, residual, 'here')


def test_names_may_have_colons_themselves():
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body name="hand:palm"><geom name="site:a" size="1"/></body>'
        '</worldbody></mujoco>'
    )
    for name in ('hand:palm', 'body:hand:palm', 'geom:site:a'):
        assert bind_residual(model, {'residual': 'height', 'of': name}, 'here')
    with pytest.raises(ConfigError, match="unknown kind of frame 'hand'"):
        bind_residual(model, {'residual': 'height', 'of': 'hand:thumb'}, 'here')
    with pytest.raises(SceneError, match="unknown site 'a'"):  # a kind comes first
        bind_residual(model, {'residual': 'height', 'of': 'site:a'}, 'here')
