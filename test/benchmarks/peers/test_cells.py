"""What a stored run depends on, without Judo."""

from pathlib import Path

import pytest
import yaml

from benchmarks.peers.runs import PEER_TASKS, settings_digest
from emppi_ros.core import paths

FOLDER = paths.share() / 'config' / 'peers'
TEXT = (FOLDER / 'judo_cartpole.yaml').read_text()


def _digests(folder: Path, changes: dict[str, dict[str, object]]) -> tuple[str, str]:
    """Return the digests for planners with and without the task's settings, after changes."""
    data = yaml.safe_load(TEXT)
    for name, values in changes.items():
        data[name] = {**data[name], **values}
    data['robot'] = str(folder / 'judo_cartpole_robot.yaml')
    text = yaml.safe_dump(data, sort_keys=False)
    return settings_digest(text, False), settings_digest(text, True)


def test_the_place_of_the_files_does_not_count_but_the_robot_does(tmp_path: Path) -> None:
    robot = (FOLDER / 'judo_cartpole_robot.yaml').read_text()
    (tmp_path / 'judo_cartpole_robot.yaml').write_text(robot)
    assert _digests(tmp_path, {}) == _digests(FOLDER, {})
    other = tmp_path / 'other'
    other.mkdir()
    (other / 'judo_cartpole_robot.yaml').write_text(robot.replace('1.8', '1.7'))
    for moved, original in zip(_digests(other, {}), _digests(FOLDER, {}), strict=True):
        assert moved != original


@pytest.mark.parametrize(
    ('section', 'values', 'counts'),
    [
        ('planner', {'horizon': 9}, (True, False)),
        ('planner', {'rate_hz': 12.5}, (True, True)),
        ('belief', {'particles': 65}, (True, False)),
        ('cost', {'control': {'residual': 'control', 'weight': 0.1}}, (True, False)),
        ('simulation', {'wrong': {'pole_mass': 0.6}}, (True, True)),
        ('simulation', {'residual_monitor': True}, (False, False)),
        ('success', {'below': 0.3}, (True, True)),
    ],
)
def test_a_run_is_outdated_by_what_its_planner_reads(
    section: str, values: dict[str, object], counts: tuple[bool, bool]
) -> None:
    pairs = zip(_digests(FOLDER, {}), _digests(FOLDER, {section: values}), strict=True)
    assert tuple(before != after for before, after in pairs) == counts


def test_every_task_has_its_own_digest() -> None:
    digests = set()
    for file in PEER_TASKS.values():  # without their packages
        data = yaml.safe_load((FOLDER / file).read_text())
        text = yaml.safe_dump({**data, 'robot': str(FOLDER / data['robot'])}, sort_keys=False)
        digests.add(settings_digest(text, True))
    assert len(digests) == len(PEER_TASKS)
