"""A colour is changed in one place."""

from pathlib import Path
import re

import pytest

from emppi_ros.viz import palette

FOLDER = Path(palette.__file__).parent
MODULES = sorted(path for path in FOLDER.rglob('*.py') if path.name != 'palette.py')
COLOR = re.compile(r"'#[0-9a-fA-F]{6}'|\(0\.\d\d, 0\.\d\d, 0\.\d\d\)")


@pytest.mark.parametrize('path', MODULES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_no_module_has_a_colour_of_its_own(path):
    assert COLOR.findall(path.read_text()) == []


def test_the_pattern_finds_colours():
    assert len(COLOR.findall((FOLDER / 'palette.py').read_text())) > 10
