"""A scene that is written with other values is that scene with other values, and no other."""

import mujoco
import numpy as np
import pytest

from emppi_ros.core import paths
from emppi_ros.core.errors import ParameterError
from emppi_ros.model import mjcf_export
from emppi_ros.model import parameters as registry
from emppi_ros.model.parameters import Parameter
from emppi_ros.tasks.task import load_task

CARTPOLE = {
    Parameter('mass', 'body_mass', 'pole', lower=0.01): 0.3123456,
    Parameter('inertia', 'body_inertia', 'pole', lower=0.001): 0.0223456,
    Parameter('centre', 'body_ipos', 'pole', 2): 0.4234567,
    Parameter('cart', 'body_mass', 'cart', lower=0.01): 1.234567,
    Parameter('height', 'body_pos', 'pole', 2): 0.01234567,
    Parameter('damping', 'dof_damping', 'hinge', lower=0.0): 0.01234567,
    Parameter('dry', 'dof_frictionloss', 'hinge', lower=0.0): 0.001234567,
    Parameter('drive', 'dof_armature', 'slider', lower=0.0): 0.02345678,
    Parameter('spring', 'jnt_stiffness', 'hinge', lower=0.0): 0.1234567,
    Parameter('pivot', 'jnt_pos', 'hinge', 2): 0.02345678,
    Parameter('tilt', 'jnt_axis', 'slider', 2): 0.1234567,
    Parameter('sliding', 'geom_friction', 'cart', lower=0.0): 0.6234567,
    Parameter('contact', 'geom_solref', 'cart', lower=0.001): 0.01234567,
    Parameter('gain', 'actuator_gain', 'slider', lower=0.1): 1.123456,
    Parameter('base', 'tilt', '', 1, -1.0, 1.0): 0.1234567,
}


def fields(model):
    """Return all numbers of a model by name, but how it is stored."""
    names = [name for name in dir(model) if not name.startswith(('_', 'tex_', 'path', 'names'))]
    arrays = {name: getattr(model, name) for name in names}
    return {name: a for name, a in arrays.items() if isinstance(a, np.ndarray)}


def compare(file, parameters, theta, folder):
    """Write, load, and compare each field with the scene in memory, of which theta is written."""
    text = mjcf_export.to_text(file, parameters, theta, 0.004)
    paths.write_text(folder / 'other.xml', text)
    back = mujoco.MjModel.from_xml_path(str(folder / 'other.xml'))
    wanted = mujoco.MjModel.from_xml_path(str(file.path))
    wanted = registry.with_parameters(wanted, parameters, theta)
    assert back.opt.timestep == 0.004
    ours, theirs = fields(back), fields(wanted)
    assert set(ours) == set(theirs)
    for name, values in theirs.items():
        if name.endswith('adr') and 'name_' in name:
            continue
        # MJCF has six digits; of differences of such, as of weights at rest, fewer are left
        np.testing.assert_allclose(ours[name], values, rtol=1e-4, atol=1e-5, err_msg=name)


def test_every_field_is_written_and_no_other_changes(tmp_path):
    values = np.array(list(CARTPOLE.values()))
    compare(paths.find_scene('cartpole.xml'), tuple(CARTPOLE), values, tmp_path)


def test_a_scene_with_meshes_and_includes_loads_from_elsewhere(tmp_path):
    task = load_task('panda_push')
    compare(task.scene_file, task.parameters, 0.9 * task.prior.mean(), tmp_path)


def test_a_value_that_cannot_be_written_is_named(monkeypatch):
    monkeypatch.setattr(mjcf_export, '_write', lambda *_: None)
    (mass, *_), (value, *_) = CARTPOLE, CARTPOLE.values()
    with pytest.raises(
        ParameterError, match="mass: body_mass of 'pole' cannot be written .*0.312"
    ):
        mjcf_export.to_text(paths.find_scene('cartpole.xml'), [mass], np.array([value]), 0.01)


def test_a_delay_of_commands_has_no_place_in_a_file():
    delay = Parameter('delay', 'command_delay', '', lower=0.0, upper=0.1)
    file = paths.find_scene('cartpole.xml')
    words = 'delay: command_delay has no place in an MJCF file: leave it out'
    with pytest.raises(ParameterError, match=words):
        mjcf_export.to_text(file, (delay,), np.array([0.02]), 0.004)
