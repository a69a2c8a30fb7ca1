"""`emppi robot`: describe the robot of a model."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from emppi_ros.cli import output
from emppi_ros.cli.command import Subcommand
from emppi_ros.core import config, paths
from emppi_ros.core.errors import ConfigError, EmppiError
from emppi_ros.model import scene, urdf_import
from emppi_ros.robots import robot_file
from emppi_ros.tasks import reach_file
from emppi_ros.tasks.task import Task


def add_commands(commands: object) -> None:  # argparse has no public type for it
    """Add the command to the parser."""
    add = Subcommand(commands, 'robot', write_robot).option
    text = 'MJCF file of a robot, or of a scene with it; or a URDF; several without --out'
    add('model', text, Path, 'MODEL', nargs='+')
    add('--out', 'file to write', Path, 'ROBOT.yaml')
    add('--name', 'name of the robot (that of the model)', str, 'NAME', '')
    text = 'limit of {} of each commanded joint, or one value for all [rad/s{} or m/s{}]'
    add('--velocity', text.format('velocity', '', ''), output.positive, 'V', nargs='+')
    add('--acceleration', text.format('acceleration', '^2', '^2'), output.positive, 'A', nargs='+')
    add('--reach', 'also write a task: bring the last link to a point', Path, 'TASK.yaml')
    add('--scene', 'for a URDF: MJCF file to write, beside a folder of meshes', Path, 'SCENE.xml')
    kinds = ('velocity', 'position')
    add('--command', 'for a URDF: what its servos take', None, default='velocity', choices=kinds)
    text = 'for a URDF: folder of a ROS package that is not sourced; repeatable'
    add('--package', text, str, 'NAME=FOLDER', [], action='append')
    add('--overwrite', 'overwrite existing files')


def write_robot(options: argparse.Namespace) -> None:
    """
    Write the YAML file of a robot from its model, or say which models can be used.

    Without --out, one line for each model says how `Task.from_model` commands it, or why it is
    refused.

    Joints, command, home, and limits of position come from the model: the joints with an actuator
    of their own are measured and commanded; a gripper is held. Limits of acceleration, and of
    velocity unless they are the range of velocity servos, are those of the robot's data sheet.

    A URDF is converted to MJCF first, with a servo for each joint, whose force is limited by the
    joint's effort, and with the weight of all links held. Bodies that touch at the start never
    collide.
    """
    if options.out is None:
        return _list_models(options.model)
    if len(options.model) > 1:
        raise ConfigError(f'--out: of one model, found {len(options.model)}')
    (options.model,) = options.model
    files = ('--out', options.out), ('--reach', options.reach), ('--scene', options.scene)
    for option, path in files:
        if path is not None:
            paths.check_new(path, options.overwrite)
            paths.check_output(option, path)
    source = _convert(options) if options.model.suffix == '.urdf' else options.model
    model = scene.load_scene(source)
    robot = robot_file.describe(
        model,
        options.name or robot_file.name_of(model) or options.model.stem,
        options.velocity,
        options.acceleration,
    )
    text = robot_file.write(robot, str(options.model))
    task = None
    if options.reach is not None:
        if options.reach.parent.resolve() != options.out.parent.resolve():
            raise ConfigError(f'--reach {options.reach}: expected in the folder of --out')
        task = reach_file.write(
            robot, model, options.reach.stem, source.resolve(), options.out.name
        )
    paths.write_text(options.out, text, options.overwrite)
    summary = {
        'robot': robot.name,
        'command': robot.command,
        'commanded': list(robot.commanded),
        'home': list(robot.home),
        'file': str(options.out),
    }
    if task is not None:
        paths.write_text(options.reach, task, options.overwrite)
        summary['task'] = f'{options.reach}: emppi run {options.reach}'
    output.show(summary, False)


def _list_models(models: Sequence[Path]) -> None:
    """Print how each model is commanded, or why it is refused, and how many are not."""
    width, accepted = max(len(str(path)) for path in models), 0
    for path in models:
        try:
            task = Task.from_model(scene.load_scene(path), lambda x: 0.0 * x.qpos[..., 0])
        except EmppiError as error:
            text = str(error).removeprefix(f'{path}: ').removeprefix('model: ')
        else:
            accepted += 1
            held = f', {len(task.held)} held' if task.held else ''
            text = f'{len(task.robot.commanded)} actuators by {task.robot.command}{held}'
        print(f'{str(path):<{width}}  {text}')
    print(f'{accepted} of {len(models)} models can be used')


def _convert(options: argparse.Namespace) -> Path:
    """Convert a URDF to the MJCF file `--scene`; warn of what was left out or assumed."""
    if options.scene is None:
        raise ConfigError(f'--scene: missing; {options.model} is a URDF: give the MJCF to write')
    folders = config.parse_assignments(
        options.package, '--package', 'arm_description=../arm_description', Path
    )
    conversion = urdf_import.read(options.model, folders, options.command)
    output.warn(conversion.notes)
    urdf_import.write(conversion, options.scene)
    scene_file: Path = options.scene
    return scene_file
