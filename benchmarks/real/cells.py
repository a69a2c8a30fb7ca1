"""The runs of the benchmark: each recording by each method."""

from collections.abc import Iterator, Sequence
import hashlib
from pathlib import Path

from benchmarks.options import check_names
from benchmarks.real.compute import METHODS, OTHERS
from benchmarks.real.datasets import BELIEFS, DATASETS, Dataset, RealRecording
from benchmarks.real.rows import RealCell
from emppi_ros.core.errors import BenchError
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
    check_names('--datasets', 'dataset', datasets, DATASETS)
    check_names('--methods', 'method', chosen, (*methods.METHODS, *OTHERS))
    cells, skipped = [], []
    for name in datasets:
        dataset = DATASETS[name]
        place = folder / dataset.folder
        if not place.is_dir():
            skipped.append(f'{name}: no folder {place} ({dataset.source})')
            continue
        for one in list(dataset.read(place))[:recordings]:
            cells += [
                RealCell(name, one, method, _digest(dataset, one, method))
                for method in _rows(dataset, one, chosen)
            ]
    if not cells:
        reasons = '; '.join(skipped) or 'no recording suits these methods'
        raise BenchError(f'--data: {reasons}')
    return cells, skipped


def _rows(dataset: Dataset, recording: RealRecording, chosen: Sequence[str]) -> Iterator[str]:
    """Yield the methods, and in the place of `published` the name of each published model."""
    for method in chosen:
        if method == 'published' and method in dataset.methods:
            yield from recording.models
        elif method in dataset.methods:
            yield method


def _digest(dataset: Dataset, recording: RealRecording, method: str) -> str:
    """Return a digest of the samples and of the model."""
    published = recording.models.get(method)
    path = ASSETS / (dataset.model if published is None else dataset.published)
    whole = hashlib.sha256(path.read_bytes())
    whole.update((ASSETS / dataset.model).with_suffix('.xml').read_bytes())
    if published is not None:
        whole.update(repr(published).encode())
    columns = dict(recording.columns)
    if method in BELIEFS:
        columns |= recording.velocities
    for name, values in columns.items():
        whole.update(name.encode() + values.tobytes())
    return whole.hexdigest()
