"""
A network as the model of a planner: it predicts the change of the state over a step of the plan.

The network, NumPy only, has two hidden layers. It is trained with Adam (Kingma and Ba 2015) on
motion under random controls from random states. It is not told the parameters: from poles that
differ it learns their average.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import BenchError
from emppi_ros.model import scene
from emppi_ros.model.ensemble import Ensemble, Records, State
from emppi_ros.planning import interpolation
from emppi_ros.tasks.cost import at_plan_steps
from emppi_ros.tasks.task import Task

HIDDEN, BATCH, UPDATES, RATE = 64, 256, 30_000, 3e-3
HELD_OUT, CHECKS = 0.1, 40  # share of the recordings; how often the network is checked on them
STEPS = 40  # of a recording
_POSITION, _ANGLE, _SPEED, _SPIN = 1.0, np.pi, 1.5, 4.0  # m, rad: bounds; m/s, rad/s: deviations
_SLOW, _FAST, _MEMORY = 0.3, 0.25, 0.9  # controls: shares of the limit; of a step's slow part
_DECAY, _SMALL = (0.9, 0.999), 1e-8  # of Adam


class Motion(NamedTuple):
    """Recorded motion of E recordings of T steps of a plan."""

    states: State  # (E, T + 1, n)
    controls: Array  # (E, T * substeps + 1, nu), of each physics step


def record(task: Task, theta: Array, rng: np.random.Generator) -> Motion:
    """Return motion under random controls from random states, of each row of theta (E, P)."""
    model, config, count = task.model, task.planner, len(theta)
    hinge = model.jnt_type == scene.HINGE
    start = State(
        rng.uniform(-1.0, 1.0, (count, model.nq)) * np.where(hinge, _ANGLE, _POSITION),
        rng.standard_normal((count, model.nv)) * np.where(hinge, _SPIN, _SPEED),
    )
    white = rng.standard_normal((2, count, 1, STEPS, model.nu))
    slow = white[0]
    for t in range(1, STEPS):
        slow[..., t, :] *= np.sqrt(1.0 - _MEMORY**2)
        slow[..., t, :] += _MEMORY * slow[..., t - 1, :]
    low, high = model.actuator_ctrlrange.T
    knots = np.clip((_SLOW * slow + _FAST * white[1]) * high, low, high)
    fine = interpolation.upsample(knots, np.zeros(model.nu), config.substeps, config.interpolation)
    ensemble = Ensemble(model, task.parameters, count, threads=config.threads)
    ensemble.write(theta)
    records = ensemble.rollout(start, fine, State._fields)
    fields = at_plan_steps(records, start, config.substeps)
    states = State(*(fields[name][:, 0] for name in State._fields))
    return Motion(states, fine[:, 0])


def step_means(fine: Array, substeps: int) -> Array:
    """Return the mean control of each step (..., H, nu) of H * substeps + 1 physics steps."""
    steps = fine[..., :-1, :]
    return steps.reshape(*steps.shape[:-2], -1, substeps, steps.shape[-1]).mean(axis=-2)


class Network:
    """Predicts the change of position and velocity over a step, from state and control."""

    def __init__(
        self, task: Task, motion: Motion, rng: np.random.Generator, updates: int = UPDATES
    ) -> None:
        """Train on recorded motion, whose last tenth is held out."""
        self._hinge = task.model.jnt_type == scene.HINGE
        (qpos, qvel), controls = motion.states, step_means(motion.controls, task.planner.substeps)
        held = max(1, round(HELD_OUT * len(controls)))
        inputs = self._features(State(qpos[:, :-1], qvel[:, :-1]), controls)
        targets = np.concatenate([np.diff(qpos, axis=1), np.diff(qvel, axis=1)], axis=-1)
        self._inputs, self._outputs = (
            (part.mean(axis=(0, 1)), part.std(axis=(0, 1))) for part in (inputs, targets)
        )
        x = ((inputs - self._inputs[0]) / self._inputs[1]).astype(np.float32)
        y = ((targets - self._outputs[0]) / self._outputs[1]).astype(np.float32)
        sizes = (x.shape[-1], HIDDEN, HIDDEN, y.shape[-1])
        kept, checked = (_pairs(x[part], y[part]) for part in (slice(-held), slice(-held, None)))
        self._layers = train(kept, checked, sizes, rng, updates)

    def step(self, state: State, control: Array, share: float = 1.0) -> State:
        """Return the states (..., n) after a share of a step with a mean control (..., nu)."""
        scaled = (self._features(state, control) - self._inputs[0]) / self._inputs[1]
        change = forward(self._layers, scaled)[-1] * self._outputs[1] + self._outputs[0]
        qpos, qvel = np.split(change, 2, axis=-1)
        return State(state.qpos + share * qpos, state.qvel + share * qvel)

    def _features(self, state: State, control: Array) -> Array:
        angle = state.qpos[..., self._hinge]
        slide = state.qpos[..., ~self._hinge]
        return np.concatenate([slide, np.sin(angle), np.cos(angle), state.qvel, control], axis=-1)


Pairs = tuple[Any, Any]  # inputs (n, i) and targets (n, o)
Layers = Sequence[Any]  # weights and biases of each layer in turn


def _pairs(x: Any, y: Any) -> Pairs:
    return x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])


def forward(layers: Layers, x: Any) -> list[Any]:
    """Return the values of all layers, that of the input first; hidden ones are tanh."""
    values = [x]
    for i in range(0, len(layers), 2):
        y = values[-1] @ layers[i] + layers[i + 1]
        values.append(y if i == len(layers) - 2 else np.tanh(y))
    return values


def gradient(layers: Layers, x: Any, y: Any) -> list[Any]:
    """Return the derivatives of half the mean squared error by weights and biases."""
    values = forward(layers, x)
    error, slopes = (values[-1] - y) / y.size, list[Any]()
    for i in range(len(layers) - 2, -1, -2):
        slopes[:0] = [values[i // 2].T @ error, error.sum(axis=0)]
        error = (error @ layers[i].T) * (1.0 - values[i // 2] ** 2)
    return slopes


def train(
    data: Pairs, held: Pairs, sizes: Sequence[int], rng: np.random.Generator, updates: int
) -> Layers:
    """Return the layers, of those that Adam passes, with the least error on the held-out pairs."""
    layers: list[Any] = []
    for a, b in zip(sizes, sizes[1:], strict=False):
        weight = rng.standard_normal((a, b)) / np.sqrt(a)
        layers += [weight.astype(np.float32), np.zeros(b, dtype=np.float32)]
    mean, square = ([np.zeros_like(layer) for layer in layers] for _ in range(2))
    best, least = layers, np.inf
    for n in range(1, updates + 1):
        rows = rng.integers(0, len(data[0]), BATCH)
        rate = 0.5 * RATE * (1.0 + np.cos(np.pi * n / updates))  # falls to zero
        scale = rate * np.sqrt(1.0 - _DECAY[1] ** n) / (1.0 - _DECAY[0] ** n)
        for i, slope in enumerate(gradient(layers, data[0][rows], data[1][rows])):
            mean[i] = _DECAY[0] * mean[i] + (1.0 - _DECAY[0]) * slope
            square[i] = _DECAY[1] * square[i] + (1.0 - _DECAY[1]) * slope**2
            layers[i] = layers[i] - np.float32(scale) * mean[i] / (np.sqrt(square[i]) + _SMALL)
        if n % max(1, updates // CHECKS) == 0:
            error = float(np.mean((forward(layers, held[0])[-1] - held[1]) ** 2))
            if error < least:
                best, least = [*layers], error
    return best


class LearnedModel(Ensemble):
    """Takes the place of the planner's ensemble: a single model, which is a network."""

    def __init__(self, task: Task, network: Network, rollouts: int) -> None:
        super().__init__(task.model, task.parameters, 1, rollouts, threads=1)
        self._network, self._substeps = network, task.planner.substeps
        self._step_s = task.planner.step_s

    def rollout(
        self,
        start: State,
        controls: Array,
        record: Sequence[str],
        applied: Array | None = None,
        before: Array | None = None,
    ) -> Records:
        """Predict positions and velocities; within a step they are those of its end."""
        if applied is not None or not set(record) <= set(State._fields):
            raise BenchError(
                f'a network predicts qpos and qvel without external forces; the cost reads '
                f'{", ".join(record)}: choose a task whose cost reads joints only'
            )
        means = step_means(controls, self._substeps)
        state = State(*(np.broadcast_to(x, (*means.shape[:2], x.shape[-1])) for x in start))
        states = []
        for control in np.moveaxis(means, 2, 0):
            state = self._network.step(state, control)
            states.append(state)
        ends = State(*(np.stack(values, axis=2) for values in zip(*states, strict=True)))
        fields = {
            name: np.concatenate([np.repeat(x, self._substeps, axis=2), x[:, :, -1:]], axis=2)
            for name, x in ends._asdict().items()
        }
        last = np.concatenate([state.qpos, state.qvel], axis=-1)  # not finite once, and ever after
        return Records(fields, ~np.isfinite(last).all(axis=-1))

    def predict(self, start: State, controls: Array, substep_s: float | Array) -> State:
        """
        Return the state (1, n) after controls (substeps, nu), which last `substep_s` [s] each.

        A duration that is no multiple of a step takes a share of the change in each step.
        """
        state = State(*(np.atleast_2d(x) for x in start))
        steps = controls.shape[-2] * float(np.max(substep_s)) / self._step_s
        count = max(1, round(steps))
        for part in (
            np.array_split(controls.reshape(-1, controls.shape[-1]), count) if steps else ()
        ):
            state = self._network.step(state, part.mean(axis=0)[None], steps / count)
        return state
