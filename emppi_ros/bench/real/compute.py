"""Identify the parameters of a real mechanism, and forecast what was held out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
import re
import tempfile
import time

import numpy as np
import numpy.typing as npt

from emppi_ros.bench import hardware
from emppi_ros.bench.real.datasets import DATASETS, Dataset, RealRecording
from emppi_ros.core.errors import IdentificationError
from emppi_ros.core.paths import ASSETS
from emppi_ros.identify import methods
from emppi_ros.identify.common.figures import HeldOutForecast
from emppi_ros.identify.common.motion import MAX_STEPS_PER_SAMPLE, Motion, resample
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.recordings import Recording, read_recording
from emppi_ros.identify.methods import Identification, RunSettings
from emppi_ros.identify.shooting import estimation, forecast, windows
from emppi_ros.identify.states.forecast import split

Array = npt.NDArray[np.float64]
METHODS = ('shooting', 'states', 'rigid-body', 'sysid')
HELD_OUT = 0.3
WINDOW_S = 0.1  # before a forecast, to which its start is fitted, for all methods alike
_SAMPLES = 40


@dataclass(frozen=True)
class Estimate:
    """One quantity of a mechanism."""

    value: float
    low: float  # 5 % quantile
    high: float  # 95 %
    published: float | None = None

    @property
    def inside(self) -> bool | None:
        """Whether the 90 % interval holds the published value."""
        return None if self.published is None else self.low <= self.published <= self.high


@dataclass(frozen=True)
class ForecastError:
    """The forecasts of one joint over half a second."""

    rms: float  # of the median, rad
    median: float  # of the absolute errors of the median, rad
    inside: float  # share of measurements in the 90 % band


@dataclass(frozen=True)
class RealRow:
    """The result of one method on one recording."""

    dataset: str
    recording: str
    method: str
    digest: str
    refused: str  # why there is no estimate; '' if there is one
    quantities: Mapping[str, Estimate]
    forecasts: Mapping[str, ForecastError]  # by joint; empty if a simulation diverges
    compute_s: float
    made_by: str

    @property
    def key(self) -> tuple[str, ...]:
        """The cell that this is the result of."""
        return self.dataset, self.recording, self.method


@dataclass(frozen=True)
class RealCell:
    """One method on one recording."""

    dataset: str
    recording: RealRecording
    method: str
    digest: str  # of recording and model

    @property
    def key(self) -> tuple[str, ...]:
        """Identifies the cell."""
        return self.dataset, self.recording.name, self.method


def compute(cell: RealCell, threads: int = 0) -> RealRow:
    """Return the row of a cell; a method that refuses the recording is a result, too."""
    began, dataset = time.perf_counter(), DATASETS[cell.dataset]
    plant, refused = Plant.from_file(ASSETS / dataset.model), ''
    quantities: Mapping[str, Estimate] = {}
    forecasts: Mapping[str, ForecastError] = {}
    try:
        recording = _as_recording(cell.recording)
        found = _identify(cell.method, plant, recording, threads)
        quantities = _quantities(dataset, plant, cell.recording, found.samples)
        forecasts = _forecasts(plant, recording, found.samples[:_SAMPLES], threads)
    except IdentificationError as error:
        refused = re.sub(r'\S*/', '', str(error), count=1)  # without the temporary folder
    return RealRow(
        cell.dataset, cell.recording.name, cell.method, cell.digest, refused, quantities,
        forecasts, time.perf_counter() - began, hardware.label(),
    )  # fmt: skip


def _as_recording(one: RealRecording) -> Recording:
    """Return the recording as `emppi identify` reads it from a table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f'{one.name}.csv'
        rows = np.column_stack(list(one.columns.values()))
        header = ','.join(one.columns)
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
    found = {}
    for name in dataset.units:
        values = np.array([one[name] for one in each])
        low, high = np.quantile(values, [0.05, 0.95])
        published = recording.published.get(name)
        found[name] = Estimate(float(values.mean()), float(low), float(high), published)
    return found


def _forecasts(
    plant: Plant, recording: Recording, samples: Array, threads: int
) -> dict[str, ForecastError]:
    """Return the errors of forecasts of the held-out part, from starts of no method."""
    known, later = split(_motion(plant, recording), HELD_OUT)
    length = max(round(WINDOW_S / plant.model.opt.timestep), windows.shortest_length(known))
    scale = _noise(plant, known, samples.mean(axis=0), length, threads)
    one = forecast.forecast(plant, samples, scale, known, later, length, seed=0, threads=threads)
    return {} if one is None else _errors(one)


def _motion(plant: Plant, recording: Recording) -> Motion:
    return resample(recording, plant.model, plant.bodies, MAX_STEPS_PER_SAMPLE)


def _noise(plant: Plant, known: Motion, theta: Array, length: int, threads: int) -> Array:
    """Return the scale (nv,) of the errors with parameters as they are, and free starts."""
    cut = windows.cut(known, length)
    fixed = Plant(plant.at(theta), (), plant.write)
    starts = windows.guess_starts(cut, plant.model.opt.timestep)
    config = estimation.ShootingConfig(iterations=15)
    return estimation.estimate(fixed, known, cut, np.empty(0), starts, config, threads).scale


def _errors(one: HeldOutForecast) -> dict[str, ForecastError]:
    apart = np.median(one.forecast, axis=0) - one.measured
    shares = forecast.inside(one)
    return {
        name: ForecastError(
            float(np.sqrt(np.mean(apart[:, i] ** 2))),
            float(np.median(np.abs(apart[:, i]))),
            shares[i],
        )
        for i, (name, _) in enumerate(one.quantities)
    }


def disagreement(rows: Sequence[RealRow], name: str) -> float:
    """
    Return by how much estimates from several recordings of one mechanism differ.

    It is the root mean square of their deviations from the weighted mean, in standard deviations:
    1 if they are as far apart as their intervals say.
    """
    found = [row.quantities[name] for row in rows]
    values = np.array([one.value for one in found])
    sd = np.array([(one.high - one.low) / 3.29 for one in found])  # of a normal distribution
    mean = np.average(values, weights=sd**-2)
    return float(np.sqrt(np.sum(((values - mean) / sd) ** 2) / max(len(values) - 1, 1)))
