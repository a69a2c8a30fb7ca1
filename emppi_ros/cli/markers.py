"""`emppi markers`: what rviz would show of a task, as a picture."""

import argparse
from pathlib import Path
import sys
from typing import Any

import mujoco

from emppi_ros.cli import output, ros
from emppi_ros.core.errors import ConfigError
from emppi_ros.session import candidates
from emppi_ros.session.closed_loop import ClosedLoop
from emppi_ros.tasks.task import load_task
from emppi_ros.viz.report import video
from emppi_ros.viz.shapes import camera as views
from emppi_ros.viz.shapes.layers import Layers, Seen

WIDTH, HEIGHT = 1280, 720  # px


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        'markers',
        help='a picture of the markers that rviz shows of a task',
        description='Run a task for a while in one process, as `emppi run` does, and draw the '
        'MarkerArrays of that moment over the scene: belief, candidates, plan, objects.',
    )
    parser.add_argument('task', metavar='TASK', help='the name of a task, or a YAML file')
    parser.add_argument('--seed', type=output.whole, default=0, help='of all randomness (0)')
    parser.add_argument('--at', metavar='S', type=output.duration, default=1.0, help='when (1)')
    parser.add_argument(
        '--out', metavar='F.png', type=Path, default=Path('markers.png'), help='(markers.png)'
    )
    parser.add_argument('--plain', action='store_true', help='on white, without the scene')
    parser.set_defaults(execute=draw)


def draw(options: argparse.Namespace) -> None:
    """Run, draw and write."""
    if options.out.suffix != '.png':
        raise ConfigError(f'--out {options.out}: expected a name that ends in .png')
    convert, drawing, picture = map(
        ros.module, ('common.convert', 'markers.conversion', 'tools.marker_image')
    )
    task = load_task(options.task)
    loop = ClosedLoop(task, options.seed)
    loop.planner.watched = candidates.place(task)
    with output.progress(task.name, options.at, 's') as advance:
        loop.run(options.at, progress=advance)
    layers, seen = Layers(task), _seen(loop)
    layers.preview.ensemble.hold(loop.planner.stage.grasp)
    shapes = (layers.objects(seen), layers.belief(seen), layers.rollouts(seen))
    stamp = convert.to_stamp(0.0)
    found = [drawing.write_shapes(part, task.robot.frame, stamp) for part in shapes]
    model = task.visual_model()
    camera = views.look(task, model)
    view = views.through(model, seen.state.qpos, camera, WIDTH, HEIGHT)
    behind = None if options.plain else _behind(model, camera, loop)
    picture.save(options.out, picture.draw(view, found, behind))
    print(f'wrote {options.out}')


def _seen(loop: ClosedLoop) -> Seen:
    """Return what planner and belief know at the end of a run."""
    stamp = loop.estimator.stamp
    return Seen(
        stamp,
        loop.estimator.state(stamp),
        loop.estimator.seen(stamp),
        loop.filter.belief,
        loop.plan,
        loop.planner.candidates,
    )


def _behind(
    model: mujoco.MjModel, camera: mujoco.MjvCamera, loop: ClosedLoop
) -> video.Image | None:
    """Return the scene as it is, None where nothing can be rendered."""
    try:
        found = video.Camera(model, WIDTH, HEIGHT, camera)
    except video.RenderError as error:
        print(f'without the scene: {error}', file=sys.stderr)
        return None
    try:
        return found.render(loop.robot.data.qpos)
    finally:
        found.close()
