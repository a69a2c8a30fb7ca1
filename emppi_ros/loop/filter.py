"""One belief cycle of a task: predict with every particle, compare, reweight, resample."""

from collections.abc import Mapping, Sequence
import math
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros import weights
from emppi_ros.belief import blocks, likelihood, particles
from emppi_ros.belief.likelihood import PoseError
from emppi_ros.belief.particles import Belief, Indices
from emppi_ros.errors import DegenerateWeightsError
from emppi_ros.loop.planner import Commands
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.state import articulation
from emppi_ros.state.estimator import Moment
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
_LONGEST_S = 0.5  # beyond such a gap in measurements, a prediction says nothing


class Update(NamedTuple):
    """What a belief cycle did, for diagnostics."""

    ess: float  # effective sample size before resampling
    resampled: bool
    reinjected: bool  # no particle explained it: half of them are from the prior again


class Filter:
    """Keeps a belief about a task's parameters up to date with measurements."""

    MEMORY = ('_rng', 'belief', '_last')

    def __init__(self, task: Task, rng: np.random.Generator) -> None:
        """Draw the particles from the prior."""
        self._task, self._rng, self._config = task, rng, task.belief
        self._ensemble = Ensemble(
            task.model, task.parameters, self._config.particles, 1, task.planner.threads
        )
        self._order = np.argsort(task.map.ctrl)
        self._last: tuple[float, State] | None = None
        self.reset()

    def tune(self, task: Task) -> None:
        """Go on with a task that differs in numbers alone; what was learned is kept."""
        self._task, self._config = task, task.belief

    def reset(self) -> None:
        """Forget all that was learned: particles from the prior again."""
        prior, count = self._task.prior, self._config.particles
        self.belief: Belief = (
            prior.begin(count, self._rng)
            if not self._task.blocks  # which weigh nothing together
            else particles.uniform(prior.sample(count, self._rng))
        )
        self._last = None

    def restart(self) -> None:
        """Keep the belief, but start from the next measurement, as after something was moved."""
        self._last = None

    def hold(self, equalities: Sequence[int]) -> None:
        """Predict with these equality constraints in force: a stage's grasp."""
        self._ensemble.hold(equalities)

    def observe(self, stamp: float, moment: Moment, commands: Commands) -> Update | None:
        """
        Update the belief with what was measured at `stamp`; the first call only starts.

        Parameters
        ----------
        stamp : float
            Time of the measurement.
        moment : Moment
            What sensors said at that time, and the best estimate, from which the next
            prediction starts.
        commands : callable
            Times (n,) to the commands that were really applied (n, joints).

        Returns
        -------
        Update or None
            None if there was nothing to compare with: the first call, or after a gap.

        """
        self._ensemble.write(self.belief.theta)
        last = self._last
        fitted = articulation.spread(self._task, self._ensemble, moment.estimated, moment.seen)
        self._last = (stamp, fitted)
        if last is None or not 0.0 < stamp - last[0] <= _LONGEST_S:
            return None
        if not self._task.parameters:
            return None
        predicted = self._predict(last, stamp, commands)
        evidence = likelihood.log_likelihoods(
            self._config.likelihood,
            self._task.model,
            predicted,
            moment.measured,
            self._pose_errors(predicted, moment.seen),
        )
        try:
            ess, parents = self._update(evidence)
        except DegenerateWeightsError:
            self._reinject()
            self._last = (stamp, moment.estimated)
            return Update(0.0, True, True)
        corrected = self._correct(predicted, moment, fitted, stamp - last[0])
        if parents is not None:
            corrected = State(corrected.qpos[parents], corrected.qvel[parents])
        self._last = (stamp, corrected)
        return Update(ess, parents is not None, False)

    def _update(self, evidence: Array) -> tuple[float, Indices | None]:
        """Take what each degree of freedom says (M, nv); return sample size and parents."""
        settings, parameters = self._config.resampling, self._task.parameters
        if self._task.blocks:
            theta, ess = blocks.update(
                settings, parameters, self._task.blocks, self.belief.theta, evidence, self._rng
            )
            self.belief = particles.uniform(theta)
            return ess, np.arange(len(theta))  # each goes on from where it was
        belief = particles.update(settings, self.belief, evidence.sum(axis=1))
        ess = weights.effective_sample_size(belief.log_weights)
        self.belief, parents = particles.resample(settings, parameters, belief, self._rng)
        return ess, parents

    def _reinject(self) -> None:
        """Draw every other particle from the prior again; one wrong measurement costs but half."""
        theta = self.belief.theta.copy()
        rows = slice(None, None, 2)
        theta[rows] = self._task.prior.sample(len(theta[rows]), self._rng)
        self.belief = particles.uniform(theta)

    def _predict(self, last: tuple[float, State], stamp: float, commands: Commands) -> State:
        """Return what each particle predicts for `stamp`, (M, nq) and (M, nv)."""
        interval = stamp - last[0]
        count = math.ceil(interval / self._config.substep_s - 1e-6)
        times = last[0] + (np.arange(count) + 0.5) * interval / count
        return self._ensemble.predict(last[1], commands(times)[:, self._order], interval / count)

    def _pose_errors(self, predicted: State, seen: Mapping[str, Track]) -> list[PoseError]:
        errors = []
        for name, item in self._task.jointed.items():
            joints = articulation.of_models(self._ensemble, item)
            q = predicted.qpos[:, item.qpos]
            errors.append(PoseError(item.qvel, *articulation.residuals(joints, q, seen[name])))
        return errors

    def _correct(self, predicted: State, moment: Moment, fitted: State, interval: float) -> State:
        """
        Return where each particle goes on from: joints as measured, its object near its own.

        A tracked pose errs by more than an object moves between two of them, so that starting
        from it would blame the tracker's noise on the physics. Each particle keeps its object
        where its own physics brought it and moves it to the measured pose by `object_gain`
        (the steady state of a Kalman filter per particle); a gain of 1 is the paper's.
        """
        count = len(predicted.qpos)
        qpos, qvel = (np.broadcast_to(x, (count, x.shape[-1])).copy() for x in fitted)
        gain = self._config.object_gain
        if gain == 1.0:
            return State(qpos, qvel)
        velocity_gain = gain**2 / (2.0 - gain) / interval  # Benedict and Bordner 1962
        innovation = -likelihood.residuals(self._task.model, predicted, moment.measured)
        for item in self._task.objects.values():
            place, motion = slice(item.qpos, item.qpos + 7), slice(item.qvel, item.qvel + 6)
            qvel[:, motion] = predicted.qvel[:, motion] + velocity_gain * innovation[:, motion]
            qpos[:, place] = predicted.qpos[:, place]
            step = np.zeros_like(qvel)
            step[:, motion] = gain * innovation[:, motion]
            for row, move in zip(qpos, step, strict=True):
                mujoco.mj_integratePos(self._task.model, row, move, 1.0)
        for hung in self._task.jointed.values():
            change = qpos[:, hung.qpos] - predicted.qpos[:, hung.qpos]
            qpos[:, hung.qpos] = predicted.qpos[:, hung.qpos] + gain * change
            qvel[:, hung.qvel] = predicted.qvel[:, hung.qvel] + velocity_gain * change
        diverged = ~(np.isfinite(qpos).all(axis=1) & np.isfinite(qvel).all(axis=1))
        qpos[diverged], qvel[diverged] = moment.estimated
        return State(qpos, qvel)
