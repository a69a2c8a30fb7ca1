"""What is said of particles: of one system, or of several."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.identify import particles
from emppi_ros.identify.csvgd import findings
from emppi_ros.identify.csvgd.csvgd import Posterior
from emppi_ros.identify.csvgd.findings import Findings
from emppi_ros.identify.csvgd.problem import LIMIT
from emppi_ros.identify.csvgd.recorded import Learned
from emppi_ros.identify.states.plant import Plant

Array = npt.NDArray[np.float64]
_AT_LIMIT = 0.999 * LIMIT
_WORDS = 'found', 'vague', 'unexcited'  # from what is known best


class System(NamedTuple):
    """Recordings of one system, and what particles say of it."""

    learned: Learned
    posterior: Posterior
    found: Findings
    forecasts: Sequence[Array]

    @property
    def name(self) -> str:
        """As its recordings."""
        return ', '.join(self.learned.names)


def summarize(plant: Plant, system: System) -> dict[str, Any]:
    """Return each parameter with what is known of it, and how the inference went."""
    learned, posterior, found, forecasts = system
    noise = learned.problem.noise
    names = findings.measured(plant)
    middle = np.abs(np.median(found.coordinates, axis=0))
    parameters = {
        unknown.name: {
            'value': float(found.theta[:, i].mean()),
            'sd': float(found.theta[:, i].std()),
            'unit': unknown.unit,
            'knowledge': found.knowledge[i],
            'at_bound': bool(middle[i] > _AT_LIMIT),
        }
        for i, unknown in enumerate(plant.unknowns)
    }
    away = [
        np.median(future, axis=0) - seen
        for future, (seen, _) in zip(forecasts, learned.later, strict=True)
    ]
    squares = np.concatenate(away) ** 2
    apart = np.sqrt(squares.mean(axis=0)) if len(squares) else np.full(len(noise), np.nan)
    known = [i for i, sd in enumerate(noise) if np.isfinite(sd)]
    left = np.sqrt(np.mean(found.left**2, axis=0))
    covariance = np.cov(found.coordinates.T, ddof=0).reshape(2 * [len(middle)])
    directions = particles.open_directions(covariance)
    summary: dict[str, Any] = {
        'parameters': parameters,
        'unexcited_directions': particles.blind(directions, [u.name for u in plant.unknowns]),
        'particles': len(found.theta),
        'stranded': found.stranded,
        'median_log_likelihood': float(np.median(posterior.log_p)),
        'defect': posterior.defect,
        'windows': learned.windows,
        'steps': len(learned.problem.controls),
        'noise': {names[i]: float(noise[i]) for i in known},
        'residual_in_noise': {names[i]: float(left[i] / noise[i]) for i in known},
        'held_out_error': {names[i]: float(apart[i]) for i in known if np.isfinite(apart[i])},
    }
    if notes := findings.more_noise(plant, learned, found):
        summary['notes'] = '; '.join(notes)
    return summary


def together(plant: Plant, systems: Sequence[System]) -> dict[str, Any]:
    """Return what particles of several systems say together, and those of each."""
    each = {system.name: summarize(plant, system) for system in systems}
    if len(systems) == 1:
        return next(iter(each.values()))
    theta = np.concatenate([system.found.theta for system in systems])
    rows = {u.name: [one['parameters'][u.name] for one in each.values()] for u in plant.unknowns}
    parameters = {
        unknown.name: {
            'value': float(theta[:, i].mean()),
            'sd': float(theta[:, i].std()),
            'unit': unknown.unit,
            'knowledge': max((row['knowledge'] for row in rows[unknown.name]), key=_WORDS.index),
            'at_bound': any(row['at_bound'] for row in rows[unknown.name]),
        }
        for i, unknown in enumerate(plant.unknowns)
    }
    whole: dict[str, Any] = {'parameters': parameters}
    for name in ('particles', 'stranded', 'windows', 'steps'):
        whole[name] = sum(one[name] for one in each.values())
    notes = [f'{of}: {one.pop("notes")}' for of, one in each.items() if 'notes' in one]
    if notes:
        whole['notes'] = '; '.join(notes)
    return whole | {'systems': each}
