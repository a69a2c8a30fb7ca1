"""`emppi markers` needs neither ROS nor rviz."""

import imageio.v3 as imageio
import numpy as np
import pytest

from emppi_ros.cli import main
from emppi_ros.viz import palette

DRAW = ['markers', 'panda_push', '--at', '0.2', '--seed', '3', '--plain']


@pytest.mark.slow
@pytest.mark.usefixtures('renderer')
def test_the_picture_shows_belief_object_and_target(tmp_path, capsys):
    path = tmp_path / 'seen.png'
    assert main([*DRAW, '--out', str(path)]) == 0
    assert str(path) in capsys.readouterr().out
    picture = imageio.imread(path).astype(int)
    assert picture.shape == (720, 1280, 3) and (picture[0, 0] == 255).all()
    for color in (palette.OBJECT, palette.TARGET, palette.MEAN):
        near = np.abs(picture - 255 * np.array(color)).max(axis=2) <= 2  # rounding
        assert near.sum() > 50  # px, of lines of some tens each


@pytest.mark.slow
@pytest.mark.usefixtures('renderer')
def test_the_output_of_markers_must_be_a_writable_png(tmp_path, capsys):
    assert main([*DRAW, '--out', str(tmp_path / 'seen.jpg')]) == 2
    assert '.png' in capsys.readouterr().err
    assert main([*DRAW, '--out', str(tmp_path / 'no' / 'seen.png')]) == 2
    assert 'cannot be written' in capsys.readouterr().err
