"""Where configuration, launch files and models lie, in a checkout and in every kind of install."""

import importlib.util
from pathlib import Path
from typing import NamedTuple

from emppi_ros.core.errors import ConfigError, unknown

PACKAGE = Path(__file__).resolve().parents[1]
ASSETS = PACKAGE / 'model' / 'assets'
_SCHEME = 'package://'
_EXTRAS = {'gymnasium': 'tasks', 'gymnasium_robotics': 'tasks'}  # that bring these packages


class SceneFile(NamedTuple):
    """An MJCF file, and the folder in which all that it refers to must lie (None: its own)."""

    path: Path
    root: Path | None = None


def share() -> Path:
    """
    Return the folder that holds `config/` and `launch/`.

    That is the repository itself in a checkout (and in an editable install), and
    `<prefix>/share/emppi_ros` after `colcon build` or `pip install`, where the prefix
    is some parent of the installed package.
    """
    for parent in PACKAGE.parents:
        for candidate in (parent, parent / 'share' / 'emppi_ros'):
            if (candidate / 'package.xml').is_file() and (candidate / 'config').is_dir():
                return candidate
    raise ConfigError(f'no share/emppi_ros/config above {PACKAGE}: is the installation complete?')


def available(kind: str) -> list[str]:
    """Return the names of the YAML files in config/<kind>, such as `tasks` or `robots`."""
    return sorted(path.stem for path in (share() / 'config' / kind).glob('*.yaml'))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as a name longer than a file's may be
        return False


def find_config(kind: str, name: str, beside: Path | None = None) -> Path:
    """
    Return the YAML file that `name` means: a path, or the name of one in config/<kind>.

    A path is looked up in the folder `beside` first, then from where we are.
    """
    if name.endswith(('.yaml', '.yml')):
        for path in (*([beside / name] if beside else []), Path(name)):
            if _is_file(path):
                return path
        raise ConfigError(f'no such file: {name}')
    if name not in available(kind):
        raise ConfigError(unknown(kind.removesuffix('s'), name, available(kind)))
    return share() / 'config' / kind / f'{name}.yaml'


def find_scene(name: str, beside: Path | None = None) -> SceneFile:
    """
    Return an MJCF file: looked for beside the task's YAML first, then among our assets.

    `package://NAME/FILE.xml` is a file of an installed Python package, which is not imported.
    """
    if '..' in Path(name).parts:
        raise ConfigError(f'scene {name!r}: give it beside the task, or as an absolute path')
    if name.startswith(_SCHEME):
        return _in_package(*name.removeprefix(_SCHEME).partition('/')[::2])
    folders = [folder for folder in (beside, ASSETS) if folder is not None]
    for folder in folders:
        if _is_file(folder / name):
            return SceneFile(folder / name)
    listed = sorted(path.name for folder in folders for path in folder.glob('*.xml'))
    raise ConfigError(unknown('scene', name, listed))


def _in_package(package: str, name: str) -> SceneFile:
    """Return a file of an installed Python package."""
    found = importlib.util.find_spec(package) if package.isidentifier() else None
    if found is None or not found.submodule_search_locations:
        extra = _EXTRAS.get(package)
        hint = f": pip install 'emppi_ros[{extra}]'" if extra else ''
        raise ConfigError(f'Python package {package!r} is not installed{hint}')
    root = Path(found.submodule_search_locations[0])
    if not _is_file(root / name):
        raise ConfigError(f'Python package {package!r} has no file {name!r}')
    return SceneFile(root / name, root)
