"""The runs of the benchmark: mechanisms with random geometry, and real tracks."""

from collections.abc import Sequence
from dataclasses import dataclass
import hashlib
from pathlib import Path
import time

import numpy as np

from benchmarks.articulation import mechanisms, recordings, truth
from benchmarks.articulation.mechanisms import MECHANISMS
from benchmarks.options import check_names
from emppi_ros.articulation import topology
from emppi_ros.articulation.tracks import Noise, Tracks
from emppi_ros.calibration import hardware

NOISE = Noise()
OUTLIERS = (0.0, 0.1)
SEEDS = range(100, 120)  # development used others
REAL = 'real'


@dataclass(frozen=True)
class ArticulationCell:
    """
    One run: a mechanism and a seed, or a recording.

    Attributes
    ----------
    mechanism : str
        Name in `MECHANISMS`, or `real`.
    outliers : float
        Share of wrong poses.
    seed : int
        Of geometry, motion and noise.
    recording : str
        Name of a recording; '' for simulated mechanisms.
    kind : str
        Type of joint of a recording; '' if not known.
    rotation_deg : float
        Range of rotation of a recording; -1 if not measured.
    tracks : Tracks or None
        Those of a recording.
    digest : str
        Of the recording.

    """

    mechanism: str
    outliers: float = 0.0
    seed: int = 0
    recording: str = ''
    kind: str = ''
    rotation_deg: float = -1.0
    tracks: Tracks | None = None
    digest: str = ''

    @property
    def key(self) -> tuple[str | float, ...]:
        """Identifies the cell."""
        return self.mechanism, self.outliers, self.seed, self.recording


@dataclass(frozen=True)
class ArticulationRow:
    """
    What was inferred in a run.

    Attributes
    ----------
    topology, right, undecided : bool
        Whether the parts are joined correctly; whether all types are right, too; whether one is
        undecided and no other is wrong.
    kind : str
        Of a recording: the inferred type, with the candidates if undecided.
    expected : str
        Of a recording: its type, '' if not known.
    rotation_deg : float
        Of a recording: range of rotation; -1 if not measured.
    axis_deg, pivot_mm : tuple of float
        Errors of the axes and pivots, where the type is right.

    """

    mechanism: str
    outliers: float
    seed: int
    recording: str
    digest: str
    topology: bool
    right: bool
    undecided: bool
    kind: str
    expected: str
    rotation_deg: float
    axis_deg: tuple[float, ...]
    pivot_mm: tuple[float, ...]
    compute_s: float
    made_by: str

    @property
    def key(self) -> tuple[str | float, ...]:
        """The cell that this is the result of."""
        return self.mechanism, self.outliers, self.seed, self.recording


def make_cells(
    chosen: Sequence[str], seeds: Sequence[int], data: Path | None
) -> list[ArticulationCell]:
    """Return the cells of mechanisms, and of the recordings in a folder; errors name options."""
    check_names('--mechanisms', 'mechanism', chosen, MECHANISMS)
    cells = [
        ArticulationCell(name, outliers, seed)
        for name in chosen
        for outliers in OUTLIERS
        for seed in seeds
    ]
    for one in recordings.read(data) if data is not None else ():
        turned = -1.0 if np.isnan(one.rotation_deg) else one.rotation_deg
        digest = hashlib.sha256(one.content).hexdigest()
        cells.append(
            ArticulationCell(REAL, 0.0, 0, one.name, one.kind, turned, one.tracks, digest)
        )
    return cells


def compute(cell: ArticulationCell) -> ArticulationRow:
    """Return the row of a cell."""
    return _real(cell) if cell.tracks is not None else _simulated(cell)


def _simulated(cell: ArticulationCell) -> ArticulationRow:
    began, rng = time.perf_counter(), np.random.default_rng(cell.seed)
    mechanism = MECHANISMS[cell.mechanism](rng)
    tree = topology.infer(mechanisms.track(mechanism, NOISE, cell.outliers, rng), cell.seed)
    found = truth.compare(tree, mechanism)
    return ArticulationRow(
        cell.mechanism, cell.outliers, cell.seed, '', '', found.topology, found.kinds,
        found.undecided, '', '', -1.0, tuple(np.degrees(found.axis_rad).tolist()),
        tuple((1000.0 * np.array(found.pivot_m)).tolist()), time.perf_counter() - began,
        hardware.label(),
    )  # fmt: skip


def _real(cell: ArticulationCell) -> ArticulationRow:
    assert cell.tracks is not None  # `compute` checked it
    began = time.perf_counter()
    joint = topology.infer(cell.tracks).joint(recordings.PART)
    kind = joint.kind
    if kind == 'undecided':
        kind = f'undecided: {" or ".join(joint.candidates)}'
    return ArticulationRow(
        cell.mechanism, 0.0, 0, cell.recording, cell.digest, True, joint.kind == cell.kind,
        joint.kind == 'undecided', kind, cell.kind, cell.rotation_deg, (), (),
        time.perf_counter() - began, hardware.label(),
    )  # fmt: skip
