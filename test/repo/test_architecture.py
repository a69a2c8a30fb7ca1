"""The border to ROS, and the one way that imports go."""

import ast
import functools
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
import re
import subprocess
import sys

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / 'emppi_ros'
FILES = sorted(PACKAGE.rglob('*.py'))

MAP = (ROOT / 'docs' / 'architecture.md').read_text().split('```text\n', 1)[1].split('```', 1)[0]
LAYERS = [set(re.findall(r'(\w+)/', line.split('  ')[0])) for line in MAP.splitlines()]
LAYERS[-1].add('__init__')


def part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix('.py')


def layer(name: str) -> int:
    (found,) = [i for i, names in enumerate(LAYERS) if name in names]
    return found


@functools.cache
def imports(path: Path) -> frozenset[str]:
    """Return the dotted names that a file imports, those inside of functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f'{path}: imports are absolute here'
            found |= {f'{node.module}.{alias.name}' for alias in node.names}
    return frozenset(found)


def arrows(path: Path) -> set[str]:
    """Return the parts of this package that a file imports."""
    if path == PACKAGE / '__init__.py':
        return set()  # the public names load on first use: test/unit/test_api.py
    inner = {name.split('.')[1] for name in imports(path) if name.startswith('emppi_ros.')}
    return {name for name in inner if name != '__version__'} - {part(path)}


def is_ros(name: str) -> bool:
    root = name.split('.', maxsplit=1)[0]
    return (
        root in {'rclpy', 'launch', 'launch_ros', 'ament_index_python', 'rcl_interfaces'}
        or root.startswith('launch')
        or root.endswith(('_msgs', '_srvs'))
    )


def test_ros_is_imported_in_nodes_only() -> None:
    elsewhere = [path for path in FILES if part(path) != 'nodes']
    wrong = {str(p): names for p in elsewhere if (names := set(filter(is_ros, imports(p))))}
    assert not wrong


def test_imports_go_down_the_layers() -> None:
    upwards = [
        f'{path.relative_to(ROOT)} imports {target}, which is above'
        for path in FILES
        for target in arrows(path)
        if layer(part(path)) > layer(target)
    ]
    assert not upwards


def test_the_map_names_every_folder_once_and_fits_on_one_screen() -> None:
    named = [name for names in LAYERS for name in names]
    folders = {path.parent.name for path in PACKAGE.glob('*/__init__.py')}
    assert sorted(named) == sorted({*folders, '__init__'})
    lines = MAP.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 120


def test_what_runs_online_never_imports_identify() -> None:
    offline = {'articulation', 'calibration', 'identification', 'pipeline', 'cli'}
    for path in FILES:
        assert part(path) in offline or 'identification' not in arrows(path)


def test_planning_and_the_belief_do_not_know_each_other() -> None:
    for folder, other in (('planning', 'belief'), ('belief', 'planning')):
        for path in (PACKAGE / folder).glob('*.py'):
            assert other not in arrows(path)


def test_folders_import_one_another_without_circles() -> None:
    graph: dict[str, set[str]] = {}
    for path in FILES:
        graph.setdefault(part(path), set()).update(arrows(path))
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f'a circle of imports: {" -> ".join(error.args[1])}')


@pytest.mark.parametrize('name', ['bridge', 'simulator', 'planner', 'belief'])
def test_a_node_that_starts_waits_for_no_more_than_it_needs(name: str) -> None:
    pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')
    slow = ['scipy.signal', 'scipy.optimize', 'scipy.stats', 'matplotlib', 'imageio']
    code = (
        f'import emppi_ros.nodes.{name}.node, sys; print([n for n in {slow} if n in sys.modules])'
    )
    said = subprocess.run([sys.executable, '-c', code], check=True, capture_output=True, text=True)
    assert said.stdout == '[]\n'


def test_the_core_and_the_command_load_no_ros() -> None:
    modules = [
        '.'.join(path.relative_to(ROOT).with_suffix('').parts)
        for path in FILES
        if part(path) != 'nodes'
        and path.name not in ('__main__.py', 'warp_batch.py')  # which needs an extra
    ]
    code = (
        f'import importlib, sys\nfor name in {modules!r}: importlib.import_module(name)\n'
        'roots = {name.split(".")[0] for name in sys.modules}\n'
        'ros = ("rclpy", "launch", "launch_ros")\n'
        'print(*(name for name in roots if name in ros or name.endswith("_msgs")))'
    )
    done = subprocess.run(
        [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    'library, users',
    [
        ('mujoco.batch', {'ensemble.py', 'warp_batch.py'}),
        ('mujoco_warp', {'warp_batch.py'}),
        ('warp', {'warp_batch.py'}),
    ],
)
def test_few_modules_import_the_physics_batch(library: str, users: set[str]) -> None:
    assert {p.name for p in FILES if any(n.startswith(library) for n in imports(p))} == users
