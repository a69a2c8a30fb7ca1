"""`emppi markers`: a picture of the markers that rviz shows, without ROS."""

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any

import imageio.v3 as imageio

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.cli import output
from emppi_ros.cli.command import Subcommand
from emppi_ros.core import paths
from emppi_ros.planning.plan_preview import trace_point
from emppi_ros.tasks.task import load_task
from emppi_ros.viz.mujoco_overlay import draw_over
from emppi_ros.viz.renderer import Renderer, check_renderer, start_camera
from emppi_ros.viz.shapes.task_shapes import DisplayState, TaskShapes

WIDTH, HEIGHT = 1280, 720  # px


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    add = Subcommand(commands, 'markers', draw).option
    add('task', 'name of a task, or a YAML file', str, 'TASK')
    add('--seed', 'random seed', output.whole, default=0)
    add('--at', 'simulated time in s', output.duration, 'S', 1.0)
    add('--out', 'file to write', Path, 'F.png', Path('markers.png'))
    add('--plain', 'draw on white instead of over the scene')


def draw(options: argparse.Namespace) -> None:
    """
    Draw the markers that rviz shows into a picture.

    Run a task in one process, as `emppi run` does, stop after a while, and draw belief, candidate
    rollouts, plan and objects over the scene. Needs neither ROS nor rviz.
    """
    output.check_path('--out', options.out, '.png')
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
    camera = start_camera(task, model, WIDTH / HEIGHT)
    with closing(Renderer(model, WIDTH, HEIGHT, camera)) as renderer:
        background = None if options.plain else renderer.render(loop.robot.data.qpos)
        picture = draw_over(renderer, display.state.qpos, drawn, background)
    with paths.replacing(options.out) as temporary:
        imageio.imwrite(temporary, picture)
    print(f'wrote {options.out}')
