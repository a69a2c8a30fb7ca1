"""A URDF that fits the robot passes, one that does not is refused by joint; none does harm."""

import dataclasses
import tracemalloc
import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st
import pytest

from emppi_ros.robots import urdf_check
from emppi_ros.robots.robot import load_robot

FR3 = load_robot('fr3')
NAMES = FR3.commanded
INNER = len(NAMES) // 2


def urdf(**changes):
    """Return a URDF of the robot as a tree; `changes` of one joint's <limit>."""
    root = ET.Element('robot', name='fr3')
    ET.SubElement(root, 'link', name='base')
    limits = FR3.limits
    for i, name in enumerate(NAMES):
        joint = ET.SubElement(root, 'joint', name=name, type='revolute')
        ET.SubElement(joint, 'origin', xyz='0 0 0')
        values = {
            'lower': limits.position.lower[i],
            'upper': limits.position.upper[i],
            'velocity': limits.velocity[i],
            'effort': 87.0,
        } | (changes if i == INNER else {})
        ET.SubElement(joint, 'limit', {k: str(v) for k, v in values.items() if v is not None})
    ET.SubElement(root, 'joint', name='fr3_hand_joint', type='fixed')
    for tag in ('transmission', 'ros2_control'):  # their joints say something else
        ET.SubElement(ET.SubElement(root, tag), 'joint', name=NAMES[0], type='continuous')
    return root


def compare(root, robot=FR3):
    return urdf_check.check(robot, ET.tostring(root, encoding='unicode'))


def check(root, robot=FR3):
    return compare(root, robot).problems


def joint(root):
    return root.find(f"joint[@name='{NAMES[INNER]}']")


def test_a_urdf_with_the_robots_limits_fits_and_so_does_one_with_wider_ones():
    assert check(urdf()) == []
    assert check(urdf(lower=-7, upper=7, velocity=70)) == []
    assert check(urdf(effort=None)) == []  # nothing here needs it


@given(
    key=st.sampled_from(['lower', 'upper', 'velocity']),
    tighter=st.one_of(st.floats(-1.0, 0.99e-3), st.floats(1.01e-3, 1.0)),
)
def test_a_limit_is_compared_to_a_thousandth(key, tighter):
    limits = FR3.limits
    ours = limits.velocity if key == 'velocity' else getattr(limits.position, key)
    theirs = ours[INNER] + (tighter if key == 'lower' else -tighter)
    found = compare(urdf(**{key: theirs}))
    assert len(found.tighter) == (tighter > 1e-3)
    what = {'lower': 'position down to', 'upper': 'position up to', 'velocity': 'velocity up to'}
    for text in found.tighter:
        assert text == (
            f"joint {NAMES[INNER]!r}: robot 'fr3' allows a {what[key]} {ours[INNER]:g}, the URDF "
            f'only {theirs:g}'
        )
    if not found.problems:  # home is within the tighter limits
        limits = found.robot.limits
        now = limits.velocity if key == 'velocity' else getattr(limits.position, key)
        assert now[INNER] == (theirs if found.tighter else ours[INNER])
        assert now[:INNER] + now[INNER + 1 :] == ours[:INNER] + ours[INNER + 1 :]


def test_tighter_limits_that_exclude_home_are_a_contradiction():
    (text,) = check(urdf(upper=FR3.home[INNER] - 0.1))
    assert text.startswith("with the tighter limits of the URDF robot 'fr3' has home")
    (text,) = check(urdf(lower=-1.0, upper=-2.0))
    assert 'every lower must be below its upper' in text


def test_a_missing_joint_is_named_with_the_nearest_that_there_is():
    root = urdf()
    joint(root).set('name', 'fr3_joint4_')
    (text,) = check(root)
    assert f'{NAMES[INNER]!r}' in text and "did you mean 'fr3_joint4_'" in text
    assert len(check(ET.Element('robot'))) == len(NAMES)


@pytest.mark.parametrize('kind', ['fixed', 'planar', 'floating', 'x' * 9999, None])
def test_a_joint_that_no_command_moves_within_limits_is_named(kind):
    root = urdf()
    if kind is None:
        del joint(root).attrib['type']
    else:
        joint(root).set('type', kind)
    (text,) = check(root)
    assert f'is {(kind or "of no type")[:190]}' in text and len(text) < 400
    assert NAMES[INNER] in text and 'expected revolute or prismatic' in text


def test_a_joint_that_slides_is_as_good():
    root = urdf()
    joint(root).set('type', 'prismatic')
    assert check(root) == []


def test_a_joint_without_limit_is_named():
    root = urdf()
    joint(root).remove(joint(root).find('limit'))
    assert check(root) == [f'joint {NAMES[INNER]!r} has no <limit> in the URDF']


def test_a_joint_that_is_there_twice_is_named():
    root = urdf()
    root.append(joint(root))
    assert check(root) == [f'the URDF has joint {NAMES[INNER]!r} more than once']


@pytest.mark.parametrize('value', ['', 'fast', 'nan', 'inf', '1e999', '${2*pi}', '1' * 9999])
@pytest.mark.parametrize('key', ['lower', 'upper', 'velocity'])
def test_a_limit_that_is_no_number_is_named(key, value):
    (text,) = check(urdf(**{key: value}))
    start = f'joint {NAMES[INNER]!r} has limit {key}={value[:190]!r}'[:-1]
    assert text.startswith(start) and text.endswith('in the URDF; expected a finite number')
    assert len(text) < 400


def test_a_limit_that_is_left_out_is_0_for_positions_and_an_error_for_velocity():
    tight = dataclasses.replace(FR3.limits.position, upper=(1.0,) * INNER + (-0.2,) + (1.0,) * 3)
    robot = dataclasses.replace(
        FR3,
        limits=dataclasses.replace(FR3.limits, position=tight),
        published='none',
        home=tuple((low + up) / 2 for low, up in zip(tight.lower, tight.upper, strict=True)),
    )
    assert check(urdf(upper=None), robot) == []
    found = compare(urdf(lower=None), robot)
    assert 'down to' in found.tighter[0] and 'only 0' in found.tighter[0]
    assert found.problems  # nothing remains between 0 and -0.2
    (text,) = check(urdf(velocity=None))
    assert 'velocity' in text


@pytest.mark.parametrize(
    ('text', 'words'),
    [
        ('', 'cannot be read'),
        ('not xml', 'cannot be read'),
        ('<robot>', 'cannot be read'),
        ('<robot/><robot/>', 'cannot be read'),
        ('<robot>\ud800</robot>', 'cannot be read'),
        ('<robot>\0</robot>', 'cannot be read'),
        ('<robot>&joint;</robot>', 'cannot be read'),
        ('<mujoco/>', 'begin with <robot>'),
        ('<' + 'm' * 9999 + '/>', 'begin with <robot>'),
        ('<robot>' + ' ' * urdf_check.MAX_CHARACTERS, 'at most 10000000'),
    ],
    ids=lambda text: repr(text[:12]),
)
def test_what_is_no_urdf_is_a_sentence(text, words):
    (problem,) = urdf_check.check(FR3, text).problems
    assert words in problem and len(problem) < 400


def test_entities_that_grow_are_never_read():
    entities = ''.join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10 if i else "ha"}">' for i in range(12))
    for text in (
        f'<!DOCTYPE robot [{entities}]><robot>&e11;</robot>',
        '<!DOCTYPE robot SYSTEM "file:///etc/passwd"><robot/>',
    ):
        (problem,) = urdf_check.check(FR3, text).problems
        assert 'DOCTYPE' in problem
    # without one there are no entities but the five of XML
    assert 'cannot be read' in urdf_check.check(FR3, f'<robot>{entities}</robot>').problems[0]


@pytest.mark.slow
def test_a_deep_and_a_wide_text_take_little_memory():
    deep = '<robot>' + '<a>' * 300_000 + '</a>' * 300_000 + '</robot>'
    wide = '<robot>' + '<link/>' * 300_000 + '</robot>'
    for text, words in ((deep, 'deeper than 100'), (wide, 'lacks a joint')):
        tracemalloc.start()
        assert words in urdf_check.check(FR3, text).problems[0]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 5e6  # bytes: 3e6 for one piece nested all through; a tree takes 2e7


@given(st.text(max_size=50))
def test_any_text_is_answered(text):
    assert urdf_check.check(FR3, text).problems


WORDS = st.sampled_from(
    ['<robot>', '</robot>', '<joint name="fr3_joint1" type="revolute">', '</joint>', '<limit ']
    + ['lower="1"', 'upper="a"', '/>', '<limit/>', '<joint/>', '"', '<![CDATA[', ']]>', '<!--']
)


@given(st.lists(WORDS, max_size=12))
def test_anything_like_a_urdf_is_answered(parts):
    for end in ('', '</robot>'):
        assert all(urdf_check.check(FR3, ''.join(['<robot>', *parts, end])).problems)
