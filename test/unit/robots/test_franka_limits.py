"""Published limits: what is looser is refused by name, and FR3's envelope is libfranka's."""

import dataclasses

import numpy as np
import pytest

from emppi_ros.core import config, paths
from emppi_ros.core.errors import ConfigError
from emppi_ros.robots import franka_limits
from emppi_ros.robots.robot import Robot, load_robot

ARMS = {'panda': 'fer', 'fr3': 'fr3'}


def _data(name):
    return config.load(paths.find_config('robots', name))


def _loosen(data, quantity, joint, value):
    row = data['limits']['position'] if quantity in ('lower', 'upper') else data['limits']
    row[quantity][joint] = value
    return data


@pytest.mark.parametrize('name', ARMS)
def test_our_robots_have_exactly_the_published_limits(name):
    robot, table = load_robot(name), franka_limits.TABLES[ARMS[name]]
    assert robot.published == ARMS[name] and robot.custom_limits == ()
    limits = robot.limits
    assert (limits.position.lower, limits.position.upper) == (table.lower, table.upper)
    assert limits.velocity == table.velocity and limits.acceleration == table.acceleration
    assert limits.jerk == table.jerk and limits.effort in ((), table.effort)


LOOSER = [
    ('lower', 3, -3.08, 'lower position of panda_joint4: -3.08 .* the published -3.0718'),
    ('upper', 5, 3.76, 'upper position of panda_joint6: 3.76 .* the published 3.7525'),
    ('velocity', 0, 2.2, 'velocity of panda_joint1: 2.2 .* the published 2.175'),
    ('acceleration', 1, 10.0, 'acceleration of panda_joint2: 10 .* the published 7.5'),
    ('jerk', 6, 1e5, r'jerk of panda_joint7: 100000 .* the published 10000 \(fer\)'),
]


@pytest.mark.parametrize(('quantity', 'joint', 'value', 'words'), LOOSER)
def test_a_looser_limit_is_refused_by_name_unless_it_is_meant(quantity, joint, value, words):
    data = _loosen(_data('panda'), quantity, joint, value)
    with pytest.raises(
        ConfigError, match=f'panda.yaml: line [12][0-9]: limits: {words}.*accept_custom_limits'
    ):
        config.build(Robot, data, 'panda.yaml')
    robot = config.build(Robot, {**data, 'accept_custom_limits': True}, 'panda.yaml')
    assert len(robot.custom_limits) == 1
    config.build(Robot, {**data, 'published': 'none'}, 'panda.yaml')


@pytest.mark.parametrize('quantity', ['velocity', 'acceleration', 'jerk', 'lower', 'upper'])
@pytest.mark.parametrize('joint', range(7))
def test_every_limit_of_every_joint_is_held_against_the_table(quantity, joint):
    given = {
        'lower': np.array(franka_limits.FR3.lower),
        'upper': np.array(franka_limits.FR3.upper),
    }
    row = np.array(getattr(franka_limits.FR3, quantity))
    row[joint] += -1e-4 if quantity == 'lower' else 1e-4
    given = {**given, quantity: row}
    names = [f'left_fr3_joint{i + 1}' for i in range(7)]
    (word,) = franka_limits.excesses('fr3', names, given)
    assert names[joint] in word and quantity in word.replace(' position', '')
    row[joint] -= -2e-4 if quantity == 'lower' else 2e-4  # tighter is as welcome
    assert not list(franka_limits.excesses('fr3', names, given))


def test_the_panda_s_table_on_an_fr3_is_refused():
    # what deoxys_control issue 49 reports: acceleration up to twice what the robot can do
    with pytest.raises(ConfigError, match='acceleration of panda_joint1: 15 .* published 10'):
        config.build(Robot, {**_data('panda'), 'published': 'fr3'}, 'r.yaml')


def test_what_cannot_be_compared_is_an_error():
    data = _data('panda')
    names = [f'axis{i}' for i in range(7)]
    with pytest.raises(ConfigError, match="unknown joint 'axis0'; names must end in"):
        config.build(Robot, {**data, 'joints': names, 'commanded': names}, 'r.yaml')
    with pytest.raises(ConfigError, match="published: found 'panda', expected one of fer, fr3, n"):
        config.build(Robot, {**data, 'published': 'panda'}, 'r.yaml')
    del data['limits']['jerk']
    with pytest.raises(ConfigError, match='jerk: missing; needed with `published: fer`'):
        config.build(Robot, data, 'r.yaml')


def test_joints_are_compared_by_name_in_any_order():
    panda = load_robot('panda')
    order = [6, 1, 0, 2, 3, 5, 4]

    def pick(row):
        return tuple(np.array(row)[order].tolist())

    limits = dataclasses.replace(
        panda.limits,
        position=dataclasses.replace(
            panda.limits.position,
            lower=pick(panda.limits.position.lower),
            upper=pick(panda.limits.position.upper),
        ),
        velocity=pick(panda.limits.velocity),
        acceleration=pick(panda.limits.acceleration),
        jerk=pick(panda.limits.jerk),
    )
    names = tuple(panda.commanded[i] for i in order)
    assert dataclasses.replace(panda, commanded=names, limits=limits).custom_limits == ()


def test_the_envelope_is_libfranka_s_formula_at_hand_computed_places():
    names = load_robot('fr3').commanded
    # 0.10 rad before libfranka's stops: -0.3 + sqrt(12 * 0.1) = 0.795 and so on, minus 1e-3
    table = franka_limits.FR3.envelopes[0]
    _, up = franka_limits.velocity_envelope('fr3', names, np.array(table.upper) - 0.1)
    down, _ = franka_limits.velocity_envelope('fr3', names, np.array(table.lower) + 0.1)
    np.testing.assert_allclose(up[:2], [0.7944, 0.5180], rtol=0, atol=1e-4)  # four digits above
    np.testing.assert_allclose(down[:2], [-0.7944, -0.5180], rtol=0, atol=1e-4)
    middle = (np.array(table.lower) + table.upper) / 2.0
    _, free = franka_limits.velocity_envelope('fr3', names, middle)
    assert free[0] == pytest.approx(2.62 - 1e-3) and free[4] == pytest.approx(5.26 - 1e-3)
    beyond, up = franka_limits.velocity_envelope('fr3', names, np.array(table.upper) + 1.0)
    assert not up.any() and np.all(beyond < 0.0)  # only back


def test_without_an_envelope_the_velocity_limit_holds_everywhere():
    down, up = franka_limits.velocity_envelope('fer', ('joint2', 'joint7'), np.array([1.7, 0.0]))
    assert up == pytest.approx([2.174, 2.609]) and down == pytest.approx(-up)
