"""The experiments of `emppi bench identify`: methods on a case, each stored when it is done."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
import json
from pathlib import Path
import time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.bench.identify import samplers
from emppi_ros.identify.csvgd import csvgd
from emppi_ros.identify.csvgd.csvgd import CsvgdConfig
from emppi_ros.identify.csvgd.problem import ShootingProblem
from emppi_ros.identify.csvgd.shooting import MultipleShooting
from emppi_ros.identify.csvgd.target_density import evaluate

Array = npt.NDArray[np.float64]
Watch = Callable[[float], None]


@dataclass(frozen=True)
class Effort:
    """How long all methods may take."""

    particles: int = 100
    iterations: int = 500
    seed: int = 0
    threads: int = 1


class Found(NamedTuple):
    """What a method found on a case."""

    theta: Array  # (N, P)
    steps: int  # of physics
    cpu_s: float  # of all threads: what others do on the machine does not count
    beyond: float = 0.0  # a limit, in coordinates, before particles were clipped to it
    defect: float = 0.0  # between windows, root mean square


def constrained(
    problem: ShootingProblem, settings: CsvgdConfig, effort: Effort, watch: Watch
) -> Found:
    """Run CSVGD."""
    began = time.process_time()
    done = csvgd.infer(
        problem, settings, effort.threads, lambda now: watch(float(now.iteration + 1))
    )
    return Found(
        done.theta, done.steps, time.process_time() - began, done.beyond, done.defect
    )  # fmt: skip


def sampled(problem: ShootingProblem, name: str, effort: Effort) -> Found:
    """Run a baseline with as many physics steps as single shooting with derivatives takes."""
    began = time.process_time()
    method = samplers.ALL[name]
    times = 1 if name in samplers.NEED_SLOPES else 1 + len(problem.parameters)
    theta, steps = method(problem, effort.particles, times * effort.iterations, 'sum', effort.seed)
    return Found(theta, steps, time.process_time() - began)


def stored(folder: Path, name: str, key: Mapping[str, object], make: Callable[[], Found]) -> Found:
    """Return what an earlier run with the same key stored, or make it and store it."""
    path = folder / f'{name.replace(" ", "_").replace("/", "-")}.npz'
    said = json.dumps(key, sort_keys=True)
    if path.exists():
        with np.load(path) as data:
            if str(data['key']) == said:
                return Found(
                    data['theta'],
                    int(data['steps']),
                    *(float(data[name]) for name in ('cpu_s', 'beyond', 'defect')),
                )
    found = make()
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix('.part.npz')
    np.savez(part, key=said, **found._asdict())
    part.replace(path)
    return found


def key_of(case: str, effort: Effort, settings: CsvgdConfig | None = None) -> dict[str, object]:
    """Return what a stored result depends on; how many threads is not among it."""
    key: dict[str, object] = {'case': case, **asdict(effort), 'settings': None}
    del key['threads']
    if settings is not None:
        key['settings'] = asdict(settings)
    return key


def pace(
    problem: ShootingProblem, settings: CsvgdConfig, threads: int, pairs: int = 5
) -> tuple[float, float]:
    """
    Return physics steps per second of a core, and an iteration's time in that of bare stepping.

    Bare stepping steps the same simulations by the same number of steps, and records nothing.
    """
    shooter = MultipleShooting(problem, settings.particles, settings.windows, threads)
    z = csvgd.initial_particles(shooter)
    batch = shooter.ensemble.batch
    steps = len(problem.controls) // settings.windows
    controls = np.zeros((batch.nsim, steps, problem.controls.shape[1]))
    evaluate(shooter, z)  # the first allocates
    shooter.steps, whole, bare = 0, [], []
    for pair in range(pairs):
        began = time.process_time()
        evaluate(shooter, z + 1e-3 * (pair + 1))
        middle = time.process_time()
        batch.rollout(steps, controls, record=[])
        whole.append(middle - began)
        bare.append(time.process_time() - middle)
    return shooter.steps / sum(whole), float(np.median(np.array(whole) / np.array(bare)))
