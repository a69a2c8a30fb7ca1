"""Parameters that cannot affect a scene are told, and those that can are not."""

import re

import mujoco
import numpy as np
import pytest

from emppi_ros.model import ineffective
from emppi_ros.model.parameters import Parameter, with_parameters

XML = """
<mujoco><option><flag {flag}/></option><worldbody>
  <geom name="floor" type="plane" size="3 3 0.1" priority="{floor}" friction="{slip}"
        condim="{c}"/>
  <body name="box" pos="0 0 0.1"><freejoint/>
    <geom name="box" type="box" size="0.1 0.1 0.1" mass="1" friction="0.5" condim="{c}"/>
  </body>
  <body name="wall" pos="2 0 0"><geom name="wall" type="box" size="0.1 1 1" {wall}/></body>
  <body name="cart" pos="0 2 1"><joint name="cart" type="slide" axis="1 0 0"/>
    <geom size="0.1" contype="0" conaffinity="0"/></body>
</worldbody><contact>{pair}</contact></mujoco>
"""
UNTOUCHED = 'contype="0" conaffinity="0"'


PAIR = '<pair geom1="{}" geom2="{}" friction="0.2 0.2 0 0 0"/>'


def _model(floor=0, slip=0.3, wall=UNTOUCHED, condim=3, flag='', pair=''):
    values = {'floor': floor, 'slip': slip, 'wall': wall, 'c': condim, 'flag': flag, 'pair': pair}
    return mujoco.MjModel.from_xml_string(XML.format(**values))


def _slide(model):
    data = mujoco.MjData(model)
    data.qvel[:] = 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5
    for _ in range(200):
        mujoco.mj_step(model, data)
    return np.concatenate([data.qpos, data.qvel])


FRICTION = ('geom_friction', 'box', 0, 0.0, 0.9)
SOFTNESS = ('geom_solref', 'box', 0, 0.001, 0.9)
DAMPING = ('dof_damping', 'cart', 0, 0.0, 0.9)
CASES = {
    'body_pos of a free body': ({}, ('body_pos', 'box'), 'has a free joint'),
    'mass of a fixed body': ({}, ('body_mass', 'wall', 0, 0.1), 'the body cannot move'),
    'friction below a higher priority': ({'floor': 1}, FRICTION, 'higher priority than its 0'),
    'friction below the other one': ({'slip': 1.0}, FRICTION, 'the larger counts: floor'),
    'torsion without condim': ({}, ('geom_friction', 'box', 1, 0.0, 0.9), 'condim below 4: floor'),
    'friction without contact': ({}, ('geom_friction', 'wall', 0, 0.0, 0.9), 'collides with no'),
    'friction in a pair': ({'pair': PAIR.format('box', 'floor')}, FRICTION, '<pair>.*: floor'),
    'friction in a pair reversed': ({'pair': PAIR.format('floor', 'box')}, FRICTION, '<pair>'),
    'softness in a pair': ({'pair': PAIR.format('box', 'floor')}, SOFTNESS, 'whose solref counts'),
    'softness below a higher priority': ({'floor': 1}, SOFTNESS, 'higher priority than its 0'),
    'friction overridden': ({'flag': 'override="enable"'}, FRICTION, 'override'),
    'contacts disabled': ({'flag': 'contact="disable"'}, FRICTION, '<flag contact="disable"/>'),
    'dampers disabled': ({'flag': 'damper="disable"'}, DAMPING, '<flag damper="disable"/>'),
    # with an effect
    'friction beside a pair': ({'pair': PAIR.format('wall', 'floor')}, FRICTION, ''),
    'softness': ({}, SOFTNESS, ''),
    'damping': ({}, DAMPING, ''),
    'body_pos of a cart': ({}, ('body_pos', 'cart'), ''),
    'mass of a free body': ({}, ('body_mass', 'box', 0, 0.1), ''),
    'friction': ({}, FRICTION, ''),
    'torsion with condim': ({'condim': 4}, ('geom_friction', 'box', 1, 0.0, 0.9), ''),
}  # fmt: skip


@pytest.mark.parametrize('case', CASES)
def test_a_parameter_without_an_effect_is_told_and_changes_no_motion(case):
    scene, place, words = CASES[case]
    model, parameter = _model(**scene), Parameter('p', *place)
    sentences = ineffective.explain(model, [parameter])
    assert bool(sentences) == bool(words)
    assert all(re.match(f'parameters: p: .*no effect.*{words}', text) for text in sentences)
    if words:
        changed = with_parameters(model, [parameter], np.array([0.8]))
        assert np.array_equal(_slide(changed), _slide(model))


def test_contacts_that_a_friction_does_not_affect_are_told():
    (sentence,) = ineffective.explain(
        _model(floor=1, wall='friction="0.2"'), [Parameter('p', *FRICTION)]
    )
    assert 'no effect in contact with geoms of higher priority than its 0: floor' in sentence


def test_a_friction_is_not_hidden_by_another_uncertain_one():
    both = [Parameter('p', *FRICTION), Parameter('q', 'geom_friction', 'floor', 0, 0.0, 2.0)]
    assert not ineffective.explain(_model(slip=1.0), both)


def test_contacts_of_a_pair_are_told_beside_those_that_take_a_friction():
    wall, pair = 'friction="0.2"', PAIR.format('box', 'floor')
    (sentence,) = ineffective.explain(_model(wall=wall, pair=pair), [Parameter('p', *FRICTION)])
    assert 'in contact with geoms of a <pair>' in sentence
    assert ': floor; it has with others' in sentence
