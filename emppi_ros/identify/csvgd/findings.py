"""What particles say after all iterations: which to keep, what they know, what they forecast."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify import particles
from emppi_ros.identify.csvgd.csvgd import Posterior
from emppi_ros.identify.csvgd.problem import LIMIT
from emppi_ros.identify.csvgd.recorded import KINDS, Learned
from emppi_ros.identify.csvgd.shooting import Shooter
from emppi_ros.identify.csvgd.target import begins, each_log_p, residuals
from emppi_ros.identify.pictures import Future
from emppi_ros.identify.states.estimate import word
from emppi_ros.identify.states.plant import Plant
from emppi_ros.model import scene
from emppi_ros.model.ensemble import Ensemble, State

Array = npt.NDArray[np.float64]
_RARE = 1e-6  # a draw from the posterior is less likely than that: it has not arrived
_ASTRAY = 0.05  # of how far a joint moves: as the method `states` has it
_FEWEST = 0.1  # of the particles: fewer are no posterior
_MORE = 1.5  # times the noise


class Findings(NamedTuple):
    """Particles that arrived, and what they do."""

    theta: Array  # (N, P)
    coordinates: Array  # (N, P)
    ends: Array  # (G, N, S): states in which each recording ends
    left: Array  # (G, S): residuals of the best particle in each recording, rms
    stranded: int  # particles that did not arrive

    @property
    def sd(self) -> Array:
        """Standard deviations (P,) in that of the uniform prior."""
        return self.coordinates.std(axis=0)

    @property
    def knowledge(self) -> tuple[str, ...]:
        """What is known of each parameter: found, vague or unexcited."""
        return tuple(word(x) for x in self.sd)


def examine(learned: Learned, posterior: Posterior, threads: int = 0) -> Findings:
    """
    Return the particles that arrived, of one system.

    One that does not explain the recordings as well as the best does has not: its density is lower
    by more than a draw from the posterior ever has it (chi-squared, of as many numbers as a
    particle has).
    """
    shooter = Shooter(learned.problem, len(posterior.z), learned.windows, threads, slopes=False)
    windows = shooter.simulate(posterior.z)
    each = each_log_p(shooter, residuals(shooter, windows))[0] + begins(shooter, posterior.z).log_p
    whole = np.where(windows.diverged, -np.inf, each.sum(axis=0))
    there = whole - whole.max() > -0.5 * chi2.isf(_RARE, shooter.size)
    best = int(np.argmax(whole))
    lasts = np.append(shooter.firsts[1:], shooter.windows) - 1
    off = (windows.states - shooter.seen()[0]) * learned.problem.scale  # (N, W, h, S)
    left = [
        np.sqrt(np.mean(off[best, first : last + 1] ** 2, axis=(0, 1)))
        for first, last in zip(shooter.firsts, lasts, strict=True)
    ]
    unknown = shooter.unknown
    return Findings(
        posterior.theta[there],
        np.clip(posterior.z[there, :unknown], -LIMIT, LIMIT),
        np.moveaxis(windows.states[there][:, lasts, -1], 1, 0) * learned.problem.scale,
        np.array(left),
        int(np.sum(~there)),
    )


def check(plant: Plant, learned: Learned, found: Findings) -> None:
    """Raise IdentificationError if the model does not move as was recorded, or nothing shows."""
    seen = learned.problem.references[0]
    bounds = [*learned.problem.begins, len(seen)]
    for index, name in enumerate(scene.names(plant.model, 'joint')):
        for row, of in enumerate(learned.names):
            begin, end = bounds[row : row + 2]
            span, away = np.ptp(seen[begin:end, index]), found.left[row, index]
            if away > max(_ASTRAY * span, _MORE * learned.problem.noise[index]):
                raise IdentificationError(
                    f'{of}: joint {name!r}: the model does not match: no particle comes closer '
                    f'than {away:.3g} rad (or m) to a motion over {span:.3g} (rms): check units, '
                    'signs and commands of the recording, and limits; or give more iterations'
                )
    total = len(found.theta) + found.stranded
    if len(found.theta) < max(_FEWEST * total, min(particles.FEWEST, total)):
        raise IdentificationError(
            f'only {len(found.theta)} of {total} particles explain the recording as well as the '
            f'best: {"; ".join([*more_noise(plant, learned, found), "give more iterations"])}'
        )
    particles.excited(found.knowledge)


def more_noise(plant: Plant, learned: Learned, found: Findings) -> list[str]:
    """Return what to give as noise where the model leaves more than that, in words."""
    left, noise = np.sqrt(np.mean(found.left**2, axis=0)), learned.problem.noise
    names = measured(plant)
    told = [f'{n}={x:.3g}' for n, x, sd in zip(names, left, noise, strict=True) if x > _MORE * sd]
    if not told:
        return []
    return [
        'the model leaves more than the noise, so that the posterior is too narrow: '
        f'give --noise {" ".join(told)}'
    ]


def measured(plant: Plant) -> list[str]:
    """Return what a state's numbers are called."""
    return [f'{kind}/{joint}' for kind in KINDS for joint in scene.names(plant.model, 'joint')]


def forecast(learned: Learned, found: Findings, threads: int = 0) -> list[Array]:
    """Return the held-out part (N, T, S) of each recording, as particles have it go on."""
    problem, results, count = learned.problem, [], len(found.theta)
    for ends, (_, controls) in zip(found.ends, learned.later, strict=True):
        if not len(controls):  # nothing was held out
            results.append(np.empty((count, 0, ends.shape[1])))
            continue
        ensemble = Ensemble(problem.model, problem.parameters, count, 1, threads)
        ensemble.write(found.theta)
        many = np.broadcast_to(controls, (count, 1, *controls.shape))
        start = State(*np.split(ends, 2, axis=1))
        fields = ensemble.rollout(start, many, ('qpos', 'qvel')).fields
        results.append(np.concatenate([fields['qpos'], fields['qvel']], axis=-1)[:, 0].copy())
    return results


def spread(one: Findings, theta: Array) -> Findings:
    """Return an estimate's findings with the parameters (N, P) that may as well be true."""
    return one._replace(theta=theta, ends=one.ends.repeat(len(theta), axis=1))


def futures(learned: Learned, forecasts: Sequence[Array]) -> list[Future]:
    """Return what was held out of each recording, and forecasts of it, to be drawn."""
    model = learned.problem.model
    return [
        Future.of_motion(model, seen[:, : model.nq], one[..., : model.nq])
        for one, (seen, _) in zip(forecasts, learned.later, strict=True)
    ]
