"""Built by colcon or installed by pip, the package is complete and finds what it needs."""

import importlib.util
import json
import os
from pathlib import Path
import shutil
import subprocess
import sys

import pytest

ROOT = Path(__file__).resolve().parents[2]
TASKS = {'cartpole_swingup', 'fr3_follow', 'fr3_pickup', 'panda_push'}
NODES = {
    f'emppi_{n}'
    for n in (
        'planner',
        'belief',
        'bridge',
        'simulator',
        'markers',
        'task_server',
        'depth_camera',
        'tracker',
        'articulation',
    )
}


def call(*command: str | Path, env: dict[str, str], cwd: Path) -> str:
    done = subprocess.run(
        [str(c) for c in command], env=env, cwd=cwd, capture_output=True, text=True, timeout=120,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f'{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}'
    return done.stdout


@pytest.fixture(scope='module')
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy what belongs to the package, so that a build leaves nothing in the repository."""
    place = tmp_path_factory.mktemp('source') / 'emppi_ros'
    ignore = shutil.ignore_patterns(
        '.*', '__pycache__', 'build', 'install', 'log', 'out', '*.egg-info'
    )
    shutil.copytree(ROOT, place, ignore=ignore)
    return place


@pytest.fixture
def clean() -> dict[str, str]:
    """Return an environment in which the checkout is not on the path."""
    env = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}
    env['PYTHONSAFEPATH'] = '1'
    return env


def check(emppi: list[str | Path], prefix: Path, env: dict[str, str]) -> None:
    """Check that an installed `emppi` runs, and finds configuration and scenes in its prefix."""
    tasks = json.loads(call(*emppi, 'tasks', '--json', env=env, cwd=prefix).splitlines()[-1])
    assert set(tasks['tasks']) >= TASKS
    for task in TASKS:
        found = call(*emppi, 'check', task, '--json', env=env, cwd=prefix)
        assert Path(json.loads(found)['file']).is_relative_to(prefix)
    share = prefix / 'share' / 'emppi_ros'
    for folder in ('config', 'launch'):
        files = {p.relative_to(ROOT) for p in (ROOT / folder).rglob('*.*') if p.suffix != '.pyc'}
        assert {f for f in files if f.suffix} == {
            p.relative_to(share) for p in (share / folder).rglob('*.*') if p.suffix != '.pyc'
        }


@pytest.mark.slow
def test_colcon_builds_a_package_that_runs(source: Path, tmp_path: Path, clean: dict) -> None:
    pytest.importorskip('colcon_core', reason='colcon is not installed')
    colcon = [sys.executable, '-m', 'colcon', '--log-base', tmp_path / 'log', 'build']
    call(
        *colcon, '--paths', source, '--build-base', tmp_path / 'build', '--install-base',
        tmp_path / 'install', '--event-handlers', 'console_direct+', env=clean, cwd=tmp_path,
    )  # fmt: skip
    prefix = tmp_path / 'install' / 'emppi_ros'
    executables = {path.name for path in (prefix / 'lib' / 'emppi_ros').iterdir()}
    assert executables == {'emppi', *NODES}
    assert (prefix / 'share/ament_index/resource_index/packages/emppi_ros').is_file()
    # as a user does: source what colcon wrote, then call what is in lib/emppi_ros
    sourced = ['bash', '-c', f'. {tmp_path}/install/setup.bash && exec "$@"', '-']
    check([*sourced, prefix / 'lib' / 'emppi_ros' / 'emppi'], prefix, clean)
    assert 'usage: emppi' in call(
        *sourced, prefix / 'lib' / 'emppi_ros' / 'emppi', '--help', env=clean, cwd=tmp_path
    )


@pytest.mark.slow
def test_pip_installs_a_package_that_runs(source: Path, tmp_path: Path, clean: dict) -> None:
    if importlib.util.find_spec('pip') is None:
        pytest.skip('pip is not installed')
    prefix = tmp_path / 'prefix'
    call(
        sys.executable, '-m', 'pip', 'install', '--no-deps', '--no-build-isolation', '--quiet',
        '--disable-pip-version-check', '--target', prefix, source, env=clean, cwd=tmp_path,
    )  # fmt: skip
    commands = {path.name for path in (prefix / 'bin').iterdir()}
    assert commands == {'emppi', *NODES}, 'pip must not put a command called `planner` on the PATH'
    check([prefix / 'bin' / 'emppi'], prefix, {**clean, 'PYTHONPATH': str(prefix)})
