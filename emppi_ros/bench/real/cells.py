"""The runs of the benchmark: each recording by each method."""

from collections.abc import Sequence
import hashlib
from pathlib import Path

from emppi_ros.bench.real.compute import METHODS, RealCell
from emppi_ros.bench.real.datasets import DATASETS, Dataset, RealRecording
from emppi_ros.core.errors import BenchError, ConfigError, unknown
from emppi_ros.core.paths import ASSETS
from emppi_ros.identify import methods


def make_cells(
    folder: Path,
    datasets: Sequence[str] = tuple(DATASETS),
    chosen: Sequence[str] = METHODS,
    recordings: int | None = None,
) -> tuple[list[RealCell], list[str]]:
    """
    Return the cells of data sets, and a line for each one whose folder is missing.

    At most the first `recordings` of each, and no methods that need what was not recorded.
    ConfigError if a name is unknown, BenchError if no data set is there or one cannot be read.
    """
    for what, names, known in (
        ('dataset', datasets, tuple(DATASETS)),
        ('method', chosen, tuple(methods.METHODS)),
    ):
        for name in names:
            if name not in known:
                raise ConfigError(f'--{what}s: {unknown(what, name, known)}')
    cells, skipped = [], []
    for name in datasets:
        dataset = DATASETS[name]
        place = folder / dataset.folder
        if not place.is_dir():
            skipped.append(f'{name}: no folder {place} ({dataset.source})')
            continue
        for one in list(dataset.read(place))[:recordings]:
            cells += [
                RealCell(name, one, method, _digest(dataset, one))
                for method in chosen
                if method not in dataset.unsuitable
            ]
    if not cells:
        reasons = '; '.join(skipped) or 'no recording suits these methods'
        raise BenchError(f'--data: {reasons}')
    return cells, skipped


def _digest(dataset: Dataset, recording: RealRecording) -> str:
    """Return a digest of the samples and of the model."""
    text = (ASSETS / dataset.model).read_bytes()
    scene = (ASSETS / dataset.model).with_suffix('.xml').read_bytes()
    whole = hashlib.sha256(text + scene)
    for name, values in recording.columns.items():
        whole.update(name.encode() + values.tobytes())
    return whole.hexdigest()
