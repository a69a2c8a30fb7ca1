"""Configuration and scenes are found by name or path."""

import pytest

from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError


def test_configuration_is_found_by_name_and_by_path(tmp_path):
    for kind in ('tasks', 'robots'):
        for name in paths.available(kind):
            assert paths.find_config(kind, name).is_file()
    own = tmp_path / 'own.yaml'
    own.touch()
    assert paths.find_config('tasks', str(own)) == own


@pytest.mark.parametrize('name', ['', 'panda_pull', '../tasks/panda_push', '.'])
def test_an_unknown_name_is_an_error_that_lists_those_that_exist(name):
    with pytest.raises(ConfigError, match=r'unknown task .*available: .*panda_push'):
        paths.find_config('tasks', name)


def test_a_path_to_nothing_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match='no such file'):
        paths.find_config('tasks', str(tmp_path / 'none.yaml'))


def test_a_scene_is_found_beside_its_task_before_our_own(tmp_path):
    assert paths.find_scene('panda_push.xml', tmp_path).path.parent == paths.ASSETS
    (tmp_path / 'panda_push.xml').touch()
    assert paths.find_scene('panda_push.xml', tmp_path).path.parent == tmp_path
    with pytest.raises(ConfigError, match="unknown scene 'x.xml'.*cartpole.xml"):
        paths.find_scene('x.xml', tmp_path)


def test_a_file_beside_the_task_comes_before_one_from_where_we_are(tmp_path, monkeypatch):
    beside = tmp_path / 'beside'
    beside.mkdir()
    for folder in (tmp_path, beside):
        (folder / 'robot.yaml').touch()
    monkeypatch.chdir(tmp_path)
    assert paths.find_config('robots', 'robot.yaml', beside) == beside / 'robot.yaml'
    assert paths.find_config('robots', 'robot.yaml') == paths.Path('robot.yaml')


def test_a_scene_is_not_looked_for_in_the_folder_above(tmp_path):
    (tmp_path / 'scene.xml').write_text('<mujoco/>')
    (tmp_path / 'tasks').mkdir()
    with pytest.raises(ConfigError, match=r"scene '../scene.xml': '..' is not allowed"):
        paths.find_scene('../scene.xml', tmp_path / 'tasks')
    assert paths.find_scene(str(tmp_path / 'scene.xml')).path == tmp_path / 'scene.xml'


def test_a_scene_may_lie_in_a_python_package(tmp_path, monkeypatch):
    package = tmp_path / 'some_models'
    package.mkdir()
    (package / '__init__.py').write_text('raise RuntimeError("never imported")')
    (package / 'arm.xml').write_text('<mujoco/>')
    monkeypatch.syspath_prepend(tmp_path)
    assert paths.find_scene('package://some_models/arm.xml') == (package / 'arm.xml', package)
    for name, match in (
        ('package://some_models/leg.xml', "'some_models' has no file 'leg.xml'"),
        ('package://some_models', "'some_models' has no file ''"),
        (
            'package://no_models/arm.xml',
            "'no_models' is no installed Python package, nor a ROS package of a",
        ),
        ('package://os.path/arm.xml', "'os.path' is no installed"),
        ('package://some_models/../arm.xml', "'..' is not allowed"),
    ):
        with pytest.raises(ConfigError, match=match):
            paths.find_scene(name)


def test_a_package_that_comes_with_an_extra_is_named_with_it(monkeypatch):
    monkeypatch.setattr(paths.importlib.util, 'find_spec', lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'emppi_ros\[tasks\]'"):
        paths.find_scene('package://gymnasium_robotics/hand.xml')


def test_names_longer_than_a_files_may_be_are_unknown(tmp_path):
    with pytest.raises(ConfigError, match='unknown scene'):
        paths.find_scene('long' * 5000, tmp_path)
    with pytest.raises(ConfigError, match='no such file'):
        paths.find_config('robots', 'long' * 5000 + '.yaml', tmp_path)


def test_nothing_is_overwritten_unless_asked(tmp_path):
    path = tmp_path / 'mine.xml'
    path.write_text('mine')
    with pytest.raises(ConfigError, match='mine.xml: exists; give another name, or --overwrite'):
        paths.write_text(path, 'other')
    assert path.read_text() == 'mine'
    paths.write_text(path, 'other', overwrite=True)
    assert path.read_text() == 'other'


def test_model_files_and_scenes_are_found_without_their_suffix(tmp_path):
    (tmp_path / 'arm.v2.yaml').write_text('')
    assert paths.find_model(tmp_path / 'arm.v2') == tmp_path / 'arm.v2.yaml'
    assert paths.find_model(tmp_path / 'arm.v2.yaml') == tmp_path / 'arm.v2.yaml'
    with pytest.raises(ConfigError, match=r'leg: no such file; .* has arm.v2.yaml'):
        paths.find_model(tmp_path / 'leg')
    assert paths.find_scene('panda_push', tmp_path) == paths.find_scene('panda_push.xml')
