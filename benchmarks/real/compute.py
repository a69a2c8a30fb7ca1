"""Identify the parameters of a real mechanism, and forecast what was held out."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
import re
import tempfile
import time
from typing import Any

import numpy as np

from benchmarks import ASSETS
from benchmarks.real import online, toss_forecasts, tosses
from benchmarks.real.datasets import (
    BELIEFS,
    DATASETS,
    Dataset,
    Estimate,
    ForecastError,
    RealCell,
    RealRecording,
    RealRow,
    tosses_of,
)
from benchmarks.study import computed
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification import methods
from emppi_ros.identification.common.figures import HeldOutForecast
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.methods import Identification, RunSettings
from emppi_ros.identification.multiple_shooting import forecast, windows
from emppi_ros.identification.shooting import estimation
from emppi_ros.model.ensemble import Ensemble
from emppi_ros.recordings.motion import MAX_STEPS_PER_SAMPLE, Motion, resample, split
from emppi_ros.recordings.recordings import Recording, read_recording

OTHERS = (*BELIEFS, 'rollouts', 'published')  # that are not methods of `emppi identify`
METHODS = ('shooting', 'states', 'rigid-body', 'sysid', 'csvgd', *OTHERS)
HELD_OUT = 0.3
WINDOW_S = 0.1  # before a forecast, to which its start is fitted, for all methods alike
_SAMPLES = 40


def compute(cell: RealCell, threads: int = 0) -> RealRow:
    """Return the row of a cell; a method that refuses the recording is a result, too."""
    began, refused = time.perf_counter(), ''
    results: dict[str, Any] = {}
    try:
        results = (_of_tosses if cell.dataset == 'cube' else _of_motion)(cell, threads)
    except IdentificationError as error:
        refused = re.sub(r'\S*/', '', str(error), count=1)  # without the temporary folder
    return RealRow(**computed(cell, began), refused=refused, **results)


def _of_motion(cell: RealCell, threads: int) -> dict[str, Any]:
    """Return what a method finds in the motion of joints, as fields of a row."""
    dataset, recording = DATASETS[cell.dataset], _as_recording(cell.data)
    if cell.method in cell.data.models:
        plant, samples = _published(cell)
        return {'forecasts': _forecasts(plant, recording, samples, threads)}
    plant = Plant.from_file(ASSETS / dataset.model)
    if cell.method in BELIEFS:
        return _of_belief(cell, plant, recording, threads)
    began = time.perf_counter()
    before = Ensemble.steps
    samples = _identify(cell.method, plant, recording, threads).samples
    return {
        'steps': Ensemble.steps - before,
        'identify_s': time.perf_counter() - began,
        'quantities': _quantities(dataset, plant, cell.data, samples),
        'forecasts': _forecasts(plant, recording, samples[:_SAMPLES], threads),
    }


def _of_belief(cell: RealCell, plant: Plant, recording: Recording, threads: int) -> dict[str, Any]:
    """Return what the online belief knows after the known part, and how it came to know it."""
    dataset = DATASETS[cell.dataset]
    states = online.joint_states(plant, recording, cell.data.velocities)
    count = len(states.time) - int(HELD_OUT * len(states.time))
    known = online.JointStates(*(getattr(states, field.name)[:count] for field in fields(states)))
    sd = online.noise(known)
    task = online.make_task(plant, known, sd, cell.method == 'belief-constant')
    replayed = online.replay(task, known, sd)
    samples = replayed.snapshots[-1].theta
    settling = online.settling_scores(
        replayed, float(known.time[0]), lambda theta: dataset.quantities(plant.at(theta))
    )
    chosen = samples[:: len(samples) // _SAMPLES]
    return {
        'scores': settling | online.prediction_scores(task, replayed, known),
        'quantities': _quantities(dataset, plant, cell.data, samples),
        'forecasts': _forecasts(plant, recording, chosen, threads),
        'flags': replayed.flags,
    }


def _of_tosses(cell: RealCell, threads: int) -> dict[str, Any]:
    """Return what tosses show, and how well others are forecast."""
    dataset = DATASETS[cell.dataset]
    learned, later = tosses_of(cell.data)
    results: dict[str, Any] = {}
    if cell.method in cell.data.models:
        plant, samples = _published(cell)
    else:
        plant = Plant.from_file(ASSETS / dataset.model)
        samples = tosses.estimate(plant, learned, threads=threads)
        results['quantities'] = _quantities(dataset, plant, cell.data, samples)
    scores = toss_forecasts.scores(plant, samples[:_SAMPLES], learned, later, threads=threads)
    return {**results, 'scores': scores}


def _published(cell: RealCell) -> tuple[Plant, Array]:
    """Return the plant of a published model, and its parameters (_SAMPLES, P), all the same."""
    plant = Plant.from_file(ASSETS / DATASETS[cell.dataset].published)
    given = cell.data.models[cell.method]
    theta = np.array([given[unknown.name] for unknown in plant.unknowns])
    return plant, np.tile(theta, (_SAMPLES, 1))


def _as_recording(recording: RealRecording) -> Recording:
    """Return the recording as `emppi identify` reads it from a table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f'{recording.name}.csv'
        rows = np.column_stack(list(recording.columns.values()))
        header = ','.join(recording.columns)
        np.savetxt(path, rows, delimiter=',', header=header, comments='', fmt='%.12g')
        return read_recording([path])


def _identify(name: str, plant: Plant, recording: Recording, threads: int) -> Identification:
    method = methods.load(name)
    run = RunSettings(held_out=HELD_OUT, threads=threads)
    return method.identify(plant, [recording], method.options(), run)


def _quantities(
    dataset: Dataset, plant: Plant, recording: RealRecording, samples: Array
) -> dict[str, Estimate]:
    """Return mean and 90 % interval of each quantity over samples (n, P)."""
    each = [dataset.quantities(plant.at(theta)) for theta in samples]
    estimates = {}
    for name in dataset.units:
        values = np.array([quantities[name] for quantities in each])
        low, high = np.quantile(values, [0.05, 0.95])
        published = recording.published.get(name)
        estimates[name] = Estimate(float(values.mean()), float(low), float(high), published)
    return estimates


def _forecasts(
    plant: Plant, recording: Recording, samples: Array, threads: int
) -> dict[str, ForecastError]:
    """Return the errors of forecasts of the held-out part, from starts of no method."""
    known, later = split(_motion(plant, recording), HELD_OUT)
    length = max(round(WINDOW_S / plant.model.opt.timestep), windows.shortest_length(known))
    mean = samples.mean(axis=0)
    scale = _noise(plant, known, mean, length, threads)
    impulses = forecast.impulse_covariance(plant, mean, scale, known, length, threads)
    plain, noisy = (
        forecast.forecast(plant, samples, scale, known, later, length, 0, threads, random)
        for random in (None, impulses)
    )
    return {} if plain is None else _errors(plain, noisy)


def _motion(plant: Plant, recording: Recording) -> Motion:
    return resample(recording, plant.model, plant.bodies, MAX_STEPS_PER_SAMPLE)


def _noise(plant: Plant, known: Motion, theta: Array, length: int, threads: int) -> Array:
    """Return the scale (nv,) of the errors with parameters as they are, and free starts."""
    cut = windows.cut(known, length)
    fixed = Plant(plant.at(theta), (), plant.write)
    starts = windows.guess_starts(cut, plant.model.opt.timestep)
    return estimation.estimate(fixed, known, cut, np.empty(0), starts, threads, 15).scale


def _errors(held_out: HeldOutForecast, noisy: HeldOutForecast | None) -> dict[str, ForecastError]:
    apart = np.median(held_out.forecast, axis=0) - held_out.measured
    shares = forecast.inside(held_out)
    noisy_shares = [None] * len(shares) if noisy is None else forecast.inside(noisy)
    return {
        name: ForecastError(
            float(np.sqrt(np.mean(apart[:, i] ** 2))),
            float(np.median(np.abs(apart[:, i]))),
            shares[i],
            noisy_shares[i],
        )
        for i, (name, _) in enumerate(held_out.quantities)
    }


def disagreement(rows: Sequence[RealRow], name: str) -> float:
    """
    Return by how much estimates from several recordings of one mechanism differ.

    It is the root mean square of their deviations from the weighted mean, in standard deviations:
    1 if they are as far apart as their intervals say.
    """
    estimates = [row.quantities[name] for row in rows]
    values = np.array([estimate.value for estimate in estimates])
    widths = np.array([estimate.high - estimate.low for estimate in estimates])
    sd = widths / 3.29  # of a normal distribution
    mean = np.average(values, weights=sd**-2)
    return float(np.sqrt(np.sum(((values - mean) / sd) ** 2) / max(len(values) - 1, 1)))
