"""The house stays small, and its papers agree with one another."""

import ast
import configparser
from pathlib import Path
import re
import xml.etree.ElementTree as ET

import emppi_ros

ROOT = Path(__file__).resolve().parents[2]
LONGEST_FUNCTION = 60  # lines
SOURCES = sorted(
    path
    for folder in ('emppi_ros', 'launch', 'docs', 'test')
    for path in (ROOT / folder).rglob('*.py')
    if '__pycache__' not in path.parts
)
LAUNCH_ARGUMENTS = {
    'task', 'robot', 'simulate', 'backend', 'params_file', 'namespace', 'prior', 'save_belief',
    'seed', 'description', 'description_args', 'joint_states', 'rviz', 'respawn', 'use_sim_time',
    'log_level',
}  # fmt: skip


def test_functions_are_short() -> None:
    long = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                start = node.body[0].lineno  # signature and docstring may be as long as it takes
                if isinstance(node.body[0], ast.Expr) and len(node.body) > 1:
                    start = node.body[1].lineno
                if (length := node.end_lineno - start + 1) > LONGEST_FUNCTION:
                    long[f'{path.relative_to(ROOT)}: {node.name}'] = length
    assert not long


def test_the_version_is_the_same_everywhere() -> None:
    manifest = ET.parse(ROOT / 'package.xml').getroot()
    assert manifest.findtext('version') == emppi_ros.__version__
    assert '__version__' in (ROOT / 'setup.py').read_text()  # read from there, not repeated


def test_the_changelog_has_a_section_to_write_into() -> None:
    text = (ROOT / 'CHANGELOG.rst').read_text()
    titles = re.findall(r'^(\S.*)\n-+$', text, flags=re.MULTILINE)
    newest = titles[0].split()[0]
    assert newest in ('Forthcoming', emppi_ros.__version__)


def test_the_licence_is_the_one_that_the_manifest_names() -> None:
    assert ET.parse(ROOT / 'package.xml').getroot().findtext('license') == 'Apache-2.0'
    assert 'Apache License' in (ROOT / 'LICENSE').read_text()[:200]


def test_colcon_puts_executables_where_ros2_run_looks() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / 'setup.cfg')
    assert setup['install']['install_scripts'] == '$base/lib/emppi_ros'
    assert setup['develop']['script_dir'] == '$base/lib/emppi_ros'


def test_the_manifest_names_every_ros_package_that_nodes_import() -> None:
    named = {e.text for e in ET.parse(ROOT / 'package.xml').getroot() if 'depend' in e.tag}
    imported = set()
    for path in [*(ROOT / 'emppi_ros' / 'nodes').rglob('*.py'), *(ROOT / 'launch').glob('*.py')]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.split('.')[0])
            elif isinstance(node, ast.Import):
                imported |= {alias.name.split('.')[0] for alias in node.names}
    ros = {
        n
        for n in imported
        if n in ('rclpy', 'launch', 'launch_ros') or n.endswith(('_msgs', '_srvs'))
    }
    ros -= {'emppi_msgs'}  # optional, and without a rosdep key: test_msgs.py
    assert ros <= named, f'package.xml lacks {sorted(ros - named)}'


def test_the_launch_file_has_its_arguments() -> None:
    text = (ROOT / 'launch' / 'emppi.launch.py').read_text()
    sources = text + ''.join(p.read_text() for p in (ROOT / 'emppi_ros' / 'nodes').rglob('*.py'))
    missing = {name for name in LAUNCH_ARGUMENTS if f"'{name}'" not in sources}
    assert not missing
