"""Dockerfile and workflow install the package as README.md does, and nothing is left out."""

from pathlib import Path
import re
import xml.etree.ElementTree as ET

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / 'README.md').read_text()
STEPS = [  # of "On ROS 2", without comments, the clone and what starts the nodes
    re.sub(r'\s+#.*', '', line)
    for line in README.split('### On ROS 2', 1)[1].split('```')[1].strip().splitlines()
    if re.match(r'(rosdep|pip|colcon) ', line)
]
JOBS = yaml.safe_load((ROOT / '.github' / 'workflows' / 'ci.yml').read_text())['jobs']
PLACES = {
    'Dockerfile': (ROOT / 'Dockerfile').read_text(),
    'workflow': '\n'.join(step.get('run', '') for step in JOBS['ros']['steps']),
    'quick start': (ROOT / 'docs' / 'quickstart.md').read_text(),
}
IN_APT = {  # names in setup.py whose rosdep key is another
    'imageio[ffmpeg]': 'python3-imageio', 'pillow': 'python3-pil', 'pyyaml': 'python3-yaml',
}  # fmt: skip


def name(requirement: str) -> str:
    return re.split(r'[<>=\s]', requirement, maxsplit=1)[0]


@pytest.mark.parametrize('place', PLACES)
def test_the_steps_are_those_of_the_readme_in_their_order(place: str) -> None:
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


def test_the_citation_is_that_of_the_readme() -> None:
    citation = yaml.safe_load((ROOT / 'CITATION.cff').read_text())
    paper = citation['preferred-citation']
    for value in (paper['title'], paper['doi'], str(paper['year']), str(paper['start'])):
        assert value in README
    assert citation['license'] == 'Apache-2.0'
