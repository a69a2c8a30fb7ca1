"""`emppi markers`: a picture of the markers that rviz shows, without ROS."""

import argparse
from pathlib import Path
from typing import Any

import imageio.v3 as imageio

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.cli import output
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError
from emppi_ros.planning.plan_preview import trace_point
from emppi_ros.tasks.task import load_task
from emppi_ros.viz.mujoco_overlay import draw_over
from emppi_ros.viz.renderer import Renderer, check_renderer, start_camera
from emppi_ros.viz.shapes.task_shapes import DisplayState, TaskShapes

WIDTH, HEIGHT = 1280, 720  # px


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        'markers',
        help='draw the markers that rviz shows into a picture',
        description='Run a task in one process, as `emppi run` does, stop after a while, and draw '
        'the markers that rviz shows then over the scene: belief, candidate rollouts, plan and '
        'objects. Needs neither ROS nor rviz.',
    )
    parser.add_argument('task', metavar='TASK', help='name of a task, or a YAML file')
    parser.add_argument('--seed', type=output.whole, default=0, help='random seed (0)')
    parser.add_argument(
        '--at', metavar='S', type=output.duration, default=1.0, help='simulated time in s (1)'
    )
    parser.add_argument(
        '--out',
        metavar='F.png',
        type=Path,
        default=Path('markers.png'),
        help='file to write (markers.png)',
    )
    parser.add_argument(
        '--plain', action='store_true', help='draw on white instead of over the scene'
    )
    parser.set_defaults(execute=draw)


def draw(options: argparse.Namespace) -> None:
    """Run, draw and write."""
    if options.out.suffix != '.png':
        raise ConfigError(f'--out {options.out}: expected a name that ends in .png')
    check_renderer()
    task = load_task(options.task)
    loop = ClosedLoop(task, options.seed)
    loop.planner.trace_point = trace_point(task)
    with output.progress(task.name, options.at, 's') as advance:
        loop.run(options.at, progress=advance)
    shapes, display = TaskShapes(task), DisplayState.of_loop(loop, loop.plan)
    shapes.preview.ensemble.activate(loop.planner.stage.grasp)
    drawn = [*shapes.objects(display), *shapes.belief(display), *shapes.rollouts(display)]
    model = task.visual_model()
    renderer = Renderer(model, WIDTH, HEIGHT, start_camera(task, model, WIDTH / HEIGHT))
    try:
        background = None if options.plain else renderer.render(loop.robot.data.qpos)
        picture = draw_over(renderer, display.state.qpos, drawn, background)
    finally:
        renderer.close()
    with paths.replacing(options.out) as temporary:
        imageio.imwrite(temporary, picture)
    print(f'wrote {options.out}')
