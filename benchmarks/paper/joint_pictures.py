"""Pictures of the belief about uncertain joints, from one repeated run of each such task."""

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.paper.cells import LEARNER, SUCCESS, Cell
from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.core import config
from emppi_ros.model.parameters import AXES
from emppi_ros.tasks.task import parse_task
from emppi_ros.viz import renderer
from emppi_ros.viz.report import joint_pictures, recording


def write_all(cells: Sequence[Cell], folder: Path, say: Callable[[str], None]) -> list[Path]:
    """
    Write `articulation_TASK.png` of EMPPI's first run of each task with an uncertain joint.

    Rows hold no particles, but the same cell gives the same bits: it is run again, unless the
    picture exists. `say` receives messages about that, and about a missing renderer.
    """
    written: list[Path] = []
    for cell in _first(cells):
        name = f'articulation_{cell.task}'
        drawn = sorted(folder.glob(f'{name}*.png'))
        if kept := [path for path in drawn if joint_pictures.source_of(path) == cell.digest]:
            written += kept
            continue
        try:
            renderer.check_renderer()
            say(f'drawing the belief about the joint in {cell.task}')
            task = parse_task(cell.text, cell.task)
            record = recording.of_trace(ClosedLoop(task, cell.seed, cell.controller).run())
            written += joint_pictures.write_all(task, record, folder, name, cell.digest)
        except renderer.RenderError as error:
            say(f'no pictures of the belief about joints: {error}')
            break
    return written


def _first(cells: Sequence[Cell]) -> list[Cell]:
    """Return the learner's first cell of each task with an uncertain joint."""
    first: dict[str, Cell] = {}
    for cell in cells:
        if cell.study == SUCCESS and cell.controller == LEARNER and cell.task not in first:
            parameters = config.parse(cell.text, cell.task).get('parameters', {})
            if any(entry.get('field') in AXES for entry in parameters.values()):
                first[cell.task] = cell
    return list(first.values())
