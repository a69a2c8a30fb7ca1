"""The package emppi_msgs: complete, and found by colcon as the quick start says."""

import os
from pathlib import Path
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

import emppi_ros

ROOT = Path(__file__).resolve().parents[2]
MSGS = ROOT / 'emppi_msgs'
MANIFEST = ET.parse(MSGS / 'package.xml').getroot()
FILES = {
    path.relative_to(MSGS).as_posix() for path in [*MSGS.glob('msg/*'), *MSGS.glob('action/*')]
}


def test_the_build_lists_every_interface_and_every_package_that_they_use() -> None:
    build = (MSGS / 'CMakeLists.txt').read_text()
    assert set(re.findall(r'\w+/\w+\.(?:msg|action)', build)) == FILES
    text = '\n'.join((MSGS / name).read_text() for name in FILES)
    used = set(re.findall(r'^(\w+)/\w+', text, re.M)) | {'action_msgs'}
    assert used == {e.text for e in MANIFEST if e.tag == 'depend'}


def test_it_has_the_version_of_emppi_ros_which_does_not_depend_on_it() -> None:
    assert MANIFEST.findtext('version') == emppi_ros.__version__
    # rosdep has no key for it, and would refuse to install the other dependencies
    assert 'emppi_msgs' not in {e.text for e in ET.parse(ROOT / 'package.xml').getroot()}


def test_colcon_finds_both_packages_by_the_command_of_the_quick_start(tmp_path: Path) -> None:
    pytest.importorskip('colcon_ros', reason='colcon is not installed')
    (command,) = re.findall(
        r'^colcon build (.+)$', (ROOT / 'docs' / 'quickstart.md').read_text(), re.M
    )
    source = tmp_path / 'src' / 'emppi_ros'
    shutil.copytree(MSGS, source / 'emppi_msgs')
    for name in ('package.xml', 'setup.py', 'setup.cfg', 'colcon.pkg'):
        shutil.copy(ROOT / name, source)
    done = subprocess.run(
        [sys.executable, '-m', 'colcon', 'list', *command.split()],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, 'COLCON_LOG_PATH': str(tmp_path / 'log')},
    )
    rows = [line.split('\t') for line in done.stdout.splitlines()]
    assert {(name, kind) for name, _, kind in rows} == {
        ('emppi_msgs', '(ros.ament_cmake)'), ('emppi_ros', '(ros.ament_python)')
    }  # fmt: skip
