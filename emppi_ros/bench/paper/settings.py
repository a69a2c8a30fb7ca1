"""The settings of our tasks beside the paper's."""

from collections.abc import Iterable

from emppi_ros.bench.paper.cells import SUCCESS, Cell
from emppi_ros.bench.paper.published import COMPARED, PAPER, SOURCE
from emppi_ros.core import config
from emppi_ros.tasks.schema import TaskFile

NOTE = (
    f"The paper's settings are those of {SOURCE}. T counts each one's own steps. The paper plans "
    'with all of its particles: N is both. Its variance of the likelihood is one number for all '
    'that is compared. A lambda goes with the scale of the costs: comments in our task files say '
    'where these are Table I over so much.'
)
HEADER = ('task', 'whose', 'T', 'N', 'K', 'Sigma', 'lambda', 'variance of the likelihood')


def lines(cells: Iterable[Cell]) -> list[list[object]]:
    """Return the lines of a table: for each task of the study of success, the paper's and ours."""
    texts = {cell.task: cell.text for cell in cells if cell.study == SUCCESS}
    found: list[list[object]] = []
    for task, text in texts.items():
        if task in PAPER:
            paper = PAPER[task]
            numbers = (paper.noise_variance, paper.temperature, paper.likelihood_variance)
            words = (f'{number:g}' for number in numbers)
            found.append([task, 'paper', paper.horizon, paper.models, paper.rollouts, *words])
        found.append(
            [task, 'here', *_ours(config.build(TaskFile, config.parse(text, task), task))]
        )
    return found


def _ours(file: TaskFile) -> list[object]:
    """Return what a task's file says."""
    planner, likelihood = file.planner, file.belief.likelihood
    sds = {words: getattr(likelihood, name) for name, words in COMPARED.items()}
    variances = [f'{sd**2:.2g} ({words})' for words, sd in sds.items() if sd is not None]
    if likelihood.dof is not None:
        variances.append(f"Student's t of {likelihood.dof:g} degrees of freedom")
    return [
        f'{planner.horizon} of {planner.step_s:g} s',
        f'{planner.models}, {file.belief.particles} particles',
        planner.rollouts,
        ', '.join(f'{variance:g}' for variance in planner.noise_variance),
        f'{planner.temperature:g}',
        ', '.join(variances),
    ]
