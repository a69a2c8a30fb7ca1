"""Dockerfile and workflow install the package as the quick start does, and nothing is left out."""

from pathlib import Path
import re
import tomllib
import xml.etree.ElementTree as ET

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / 'README.md').read_text()
QUICK_START = (ROOT / 'docs' / 'quickstart.md').read_text()
STEPS = [  # of "On ROS 2", without comments, the clone and what starts the nodes
    re.sub(r'\s+#.*', '', line)
    for line in QUICK_START.split('## On ROS 2', 1)[1].split('```')[1].strip().splitlines()
    if re.match(r'(rosdep|pip|colcon) ', line)
]
JOBS = yaml.safe_load((ROOT / '.github' / 'workflows' / 'ci.yml').read_text())['jobs']
PYTEST = (ROOT / 'pyproject.toml').read_text().split('[tool.pytest')[1].split('[tool.ruff')[0]
PLACES = {
    'Dockerfile': (ROOT / 'Dockerfile').read_text(),
    'workflow': '\n'.join(step.get('run', '') for step in JOBS['ros']['steps']),
}
IN_APT = {  # names in setup.py whose rosdep key is another
    'imageio[ffmpeg]': 'python3-imageio', 'pillow': 'python3-pil', 'pyyaml': 'python3-yaml',
}  # fmt: skip


def name(requirement: str) -> str:
    return re.split(r'[<>=\s]', requirement, maxsplit=1)[0]


@pytest.mark.parametrize('place', PLACES)
def test_the_steps_are_those_of_the_quick_start_in_their_order(place: str) -> None:
    assert len(STEPS) == 3
    found = [PLACES[place].find(step) for step in STEPS]
    assert -1 not in found, f'{STEPS[found.index(-1)]!r} is not in the {place}'
    assert found == sorted(found)


def test_every_dependency_has_a_rosdep_key_or_is_in_requirements() -> None:
    setup = (ROOT / 'setup.py').read_text()
    needed = re.findall(r"'([^']+)'", setup.split('install_requires=[')[1].split('\n    ],')[0])
    keys = {e.text for e in ET.parse(ROOT / 'package.xml').getroot() if 'depend' in e.tag}
    lines = (ROOT / 'requirements.txt').read_text().splitlines()
    by_pip = {name(line) for line in lines if line and not line.startswith('#')}
    missing = [
        requirement
        for requirement in needed
        if name(requirement) not in by_pip
        and IN_APT.get(requirement, f'python3-{name(requirement)}') not in keys
    ]
    assert len(needed) > 5
    assert not missing, 'add a rosdep key to package.xml, or a line to requirements.txt'


def test_the_workflow_tests_every_python_that_the_package_supports() -> None:
    installer = (ROOT / '.ci' / 'install').read_text()
    supported = set(re.findall(r'python(3\.\d+)', installer))
    assert set(JOBS['pip']['strategy']['matrix']['python']) == supported


def test_colcon_runs_tests_that_exist() -> None:
    arguments = yaml.safe_load((ROOT / 'colcon.pkg').read_text())['pytest-args']
    folders = [a.removeprefix('--ignore=') for a in arguments if '/' in a]
    assert folders
    assert all((ROOT / folder).is_dir() for folder in folders)


def test_plugins_of_ros_that_break_the_collection_are_off() -> None:
    """
    Where ROS 2 is sourced, its pytest plugins are loaded everywhere.

    launch_testing imports test files of the same name as one module; pytest 9 refuses its hooks.
    """
    options = tomllib.loads((ROOT / 'pyproject.toml').read_text())['tool']['pytest']['ini_options']
    assert {'-p no:launch_testing', '-p no:launch_ros'} <= set(
        re.findall(r'-p no:\w+', options['addopts'])
    )


def test_the_launch_file_is_tested_where_there_is_ros() -> None:
    steps = [step.get('run', '') for step in JOBS['ros']['steps']]
    assert 'make -C src/emppi_ros test-launch' in steps[-1]
    assert (ROOT / '.ci' / 'test-launch').stat().st_mode & 0o100
    script = (ROOT / '.ci' / 'test-launch').read_text()
    tests = re.search(r'pytest .*?(test/\S+)', script)
    assert tests and (ROOT / tests[1]).is_file()


def test_the_manifest_names_what_the_tests_of_colcon_and_the_launch_file_import() -> None:
    """Without packages needed at run time, too, and those without which tests are skipped."""
    named = {e.text for e in ET.parse(ROOT / 'package.xml').getroot() if e.tag == 'test_depend'}
    arguments = yaml.safe_load((ROOT / 'colcon.pkg').read_text())['pytest-args']
    ignored = [ROOT / a.removeprefix('--ignore=') for a in arguments if a.startswith('--ignore=')]
    files = [
        path
        for path in (ROOT / 'test' / 'unit').rglob('*.py')
        if not any(path.is_relative_to(folder) for folder in ignored)
    ]
    files += [ROOT / 'test' / 'conftest.py', ROOT / 'test' / 'ros' / 'test_launch.py']
    text = '\n'.join(path.read_text() for path in files)
    words = {
        'hypothesis': 'python3-hypothesis',
        'pytest': 'python3-pytest',
        'launch_pytest': 'launch_pytest',
    }
    needed = {key for name, key in words.items() if re.search(rf'\b{name}\b', text)}
    needed |= {'python3-pytest-timeout'} if 'timeout = ' in PYTEST else set()
    needed |= {'ros2launch'} if "'ros2', 'launch'" in text else set()
    assert needed == named


def test_the_citation_is_that_of_the_readme() -> None:
    citation = yaml.safe_load((ROOT / 'CITATION.cff').read_text())
    paper = citation['preferred-citation']
    for value in (paper['title'], paper['doi'], str(paper['year']), str(paper['start'])):
        assert value in README
    assert citation['license'] == 'Apache-2.0'
