"""Paths of configuration, launch files and models, in a checkout and when installed."""

from collections.abc import Iterator
import contextlib
import importlib.util
import itertools
import os
from pathlib import Path
import shutil
from typing import NamedTuple

from emppi_ros.core.errors import ConfigError, unknown

PACKAGE = Path(__file__).resolve().parents[1]
ASSETS = PACKAGE / 'model' / 'assets'
_SCHEME = 'package://'
_EXTRAS = {'gymnasium': 'tasks', 'gymnasium_robotics': 'tasks'}  # that install them


class SceneFile(NamedTuple):
    """An MJCF file, and the folder that must contain the files it refers to (None: its own)."""

    path: Path
    root: Path | None = None


def share() -> Path:
    """
    Return the folder that holds `config/` and `launch/`.

    In a checkout or an editable install, that is the repository. After `colcon build` or
    `pip install` it is `<prefix>/share/emppi_ros`, with the prefix a parent of the package.
    """
    for parent in PACKAGE.parents:
        for candidate in (parent, parent / 'share' / 'emppi_ros'):
            if (candidate / 'package.xml').is_file() and (candidate / 'config').is_dir():
                return candidate
    raise ConfigError(f'no share/emppi_ros/config above {PACKAGE}: is the installation complete?')


def available(kind: str) -> list[str]:
    """Return the names of the YAML files in config/<kind>; `kind` is `tasks`, `robots`, ..."""
    return sorted(path.stem for path in (share() / 'config' / kind).glob('*.yaml'))


def find_config(kind: str, name: str, beside: Path | None = None) -> Path:
    """Return a YAML file by its name in config/<kind>, or by its path from `beside` or here."""
    if name.endswith(('.yaml', '.yml')):
        for path in (*([beside / name] if beside else []), Path(name)):
            if os.path.isfile(path):
                return path
        raise ConfigError(f'no such file: {name}')
    if name not in available(kind):
        raise ConfigError(unknown(kind.removesuffix('s'), name, available(kind)))
    return share() / 'config' / kind / f'{name}.yaml'


def find_model(path: Path) -> Path:
    """Return a model file (YAML) by its path, or without its suffix; ConfigError names others."""
    for candidate in (
        path,
        path.with_name(f'{path.name}.yaml'),
        path.with_name(f'{path.name}.yml'),
    ):
        if os.path.isfile(candidate):
            return candidate
    listed = sorted(file.name for file in path.parent.glob('*.y*ml'))
    raise ConfigError(
        f'{path}: no such file; {path.parent} has {", ".join(listed) or "no YAML file"}'
    )


def find_scene(name: str, beside: Path | None = None, root: str = '') -> SceneFile:
    """
    Return an MJCF file, from the folder `beside` or from the assets of this package.

    `package://NAME/FILE.xml` names a file of a ROS package, or of an installed Python package,
    which is not imported. The suffix `.xml` may be left out. `root` is a folder, from `beside`,
    that holds all files of the scene.
    """
    if '..' in Path(name).parts:
        raise ConfigError(
            f"scene {name!r}: '..' is not allowed; expected a path in the task's folder, or an "
            'absolute path'
        )
    if name.startswith(_SCHEME):
        return _in_package(*name.removeprefix(_SCHEME).partition('/')[::2])
    folders = [folder for folder in (beside, ASSETS) if folder is not None]
    for folder, file in itertools.product(folders, (name, f'{name}.xml')):
        if os.path.isfile(folder / file):
            return SceneFile(folder / file, (folder / root).resolve() if root else None)
    listed = sorted(path.name for folder in folders for path in folder.glob('*.xml'))
    raise ConfigError(unknown('scene', name, listed))


def ros_package_folders(package: str) -> Iterator[Path]:
    """Yield the folders that a ROS package has in the workspaces that are sourced."""
    for prefix in filter(None, os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep)):
        if os.path.isdir(folder := Path(prefix) / 'share' / package):
            yield folder


def _in_package(package: str, name: str) -> SceneFile:
    """Return a file of a ROS package, or of an installed Python package."""
    for folder in ros_package_folders(package):
        if os.path.isfile(folder / name):
            return SceneFile(folder / name, folder)
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        extra = _EXTRAS.get(package)
        hint = f": pip install 'emppi_ros[{extra}]'" if extra else ''
        raise ConfigError(
            f'package {package!r} is no installed Python package{hint}, nor a ROS package of a '
            'sourced workspace'
        )
    root = Path(spec.submodule_search_locations[0])
    if not os.path.isfile(root / name):
        raise ConfigError(f'Python package {package!r} has no file {name!r}')
    return SceneFile(root / name, root)


def check_new(path: Path, overwrite: bool) -> None:
    """Raise ConfigError if a file or folder exists and is not to be overwritten."""
    if path.exists() and not overwrite:
        raise ConfigError(f'{path}: exists; give another name, or --overwrite')


def write_text(path: Path, text: str, overwrite: bool = False) -> None:
    """Write a text to a new file, or overwrite one; ConfigError if that fails."""
    try:
        with path.open('w' if overwrite else 'x', encoding='utf-8') as stream:
            stream.write(text)
    except FileExistsError:
        raise ConfigError(f'{path}: exists; give another name, or --overwrite') from None
    except OSError as error:
        raise ConfigError(f'{path}: cannot be written: {error}') from None


def check_output(option: str, path: Path, folder: bool = False) -> None:
    """Raise ConfigError if a file, or a folder, cannot be written; call this before any work."""
    if path.exists() and path.is_dir() != folder:
        raise ConfigError(
            f'{option} {path}: cannot be created: it is a {"file" if folder else "folder"}'
        )
    parent = path if path.is_dir() else path.absolute().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise ConfigError(f'{option} {path}: cannot be created: {parent} is not a folder')
    if not os.access(parent, os.W_OK):
        raise ConfigError(f'{option} {path}: cannot be created: no permission to write {parent}')


def replace_text(path: Path, text: str) -> None:
    """Replace a file by a text at once, even if power fails; ConfigError if that fails."""
    with replacing(path) as temporary, temporary.open('w', encoding='utf-8') as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write to, which replaces a file unless there is an error or Ctrl-C."""
    path = path.resolve()
    temporary = path.with_name(f'.{path.stem}.{os.getpid()}.tmp{path.suffix}')
    try:
        yield temporary
        if path.exists():
            shutil.copymode(path, temporary)
        temporary.replace(path)
    except OSError as error:
        raise ConfigError(f'{path}: cannot be written: {error}') from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
