"""
The MPPI of Hydrax (GitHub `vincekurtz/hydrax`): the only module that imports it, and JAX.

It plans with MJX, MuJoCo's physics in JAX, in single precision on the processor, and with MJX
models of the same scene. With domain randomization it has models with parameters drawn from the
prior, weighs candidates by their mean cost, and does not learn.
"""

from collections.abc import Callable
import functools
import os
from typing import Any, NamedTuple

import numpy as np

from benchmarks.peers.judo import JudoTask
from benchmarks.peers.planners import PlannerSettings, load
from emppi_ros.calibration.planner_overhead import Rollouts
from emppi_ros.core.arrays import Array
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.tasks.task import Task

_HORIZON_S, _KNOTS = 1.0, 4  # as Judo's
_ONE_THREAD = '--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1'

# of MuJoCo's model, which depend on masses
FIELDS = ('body_mass', 'body_inertia', 'body_subtreemass', 'dof_invweight0', 'body_invweight0')


def _cartpole_cost(jnp: Any, state: Any, control: Any) -> Any:
    """Return minus Judo's reward of a physics step."""

    def smooth(value: Any, p: float) -> Any:
        return jnp.sqrt(value**2 + p**2) - p

    upright = smooth(jnp.cos(state.qpos[1]) - 1.0, 0.01)
    effort = 0.05 * (jnp.sum(state.qvel**2) + jnp.sum(control**2))
    return 10.0 * (upright + smooth(state.qpos[0], 0.1)) + effort


# cost, standard deviation of the noise, and temperature, by name in Judo: best on seeds 0 to 3
SETTINGS = {'cartpole': (_cartpole_cost, 0.1, 0.1)}


class HydraxPlanner:
    """`hydrax.algs.MPPI` with the model in the scene, or with models drawn from the prior."""

    def __init__(self, task: Task, judo_task: str, settings: PlannerSettings, models: int) -> None:
        """Create and compile the planner; several models are drawn from the prior."""
        if settings.threads == 1:  # XLA reads this when it is loaded
            os.environ.setdefault('XLA_FLAGS', _ONE_THREAD)
        self._jax, self._models = load('jax'), models
        self._compiled = _compile(judo_task, settings.rollouts // models, models)
        self._fields = _randomized(task, models, settings.seed) if models > 1 else {}
        self._data = load('mujoco.mjx').make_data(task.model)
        self._parameters = self._compiled.planner.init_params(seed=settings.seed)
        self._rolled: Any = None
        self._start = State(np.zeros(task.model.nq), np.zeros(task.model.nv))
        before = self._parameters
        self.plan(0.0, self._start)  # the first call compiles
        self.control(0.0)
        self.stepping_s(lambda: 0.0)
        self._parameters = before

    def stepping_s(self, clock: Callable[[], float]) -> float:
        """Return the time of only stepping the rollouts of the last plan with MJX [s]."""
        data = self._data.replace(qpos=self._start.qpos, qvel=self._start.qvel)
        began = clock()
        self._jax.block_until_ready(self._compiled.step(self._fields, data, self._rolled.controls))
        return clock() - began

    def observe(self, time: float, state: State) -> None:
        """Do nothing: this planner does not learn."""

    def plan(self, time: float, state: State) -> None:
        """Plan once from a state."""
        self._start = state
        data = self._data.replace(qpos=state.qpos, qvel=state.qvel, time=time)
        self._parameters, self._rolled = self._compiled.optimize(
            self._fields, data, self._parameters
        )
        self._jax.block_until_ready(self._parameters)

    def control(self, time: float) -> Array:
        """Return the control (nu,) of the physics step that starts at a time [s]."""
        return np.asarray(self._compiled.act(self._parameters, time), dtype=np.float64)

    @property
    def rollouts(self) -> Rollouts:
        """The rollouts of the last plan: the same controls in each model."""
        controls = np.asarray(self._rolled.controls, dtype=np.float64)
        return Rollouts(self._start, np.tile(controls, (self._models, 1, 1))[None])


class _Compiled(NamedTuple):
    planner: Any
    optimize: Callable[[dict[str, Array], Any, Any], tuple[Any, Any]]
    act: Callable[[Any, float], Any]
    step: Callable[[dict[str, Array], Any, Any], Any]


@functools.cache  # compiling takes much longer than a run
def _compile(judo_task: str, samples: int, models: int) -> _Compiled:
    """Return a planner whose models differ in fields that are an argument."""
    jax, mjx, algs = load('jax'), load('mujoco.mjx'), load('hydrax.algs')
    jnp, (cost, noise, temperature) = jax.numpy, SETTINGS[judo_task]

    class Reference(load('hydrax.task_base').Task):  # type: ignore[misc]  # known at run time only
        def running_cost(self, state: Any, control: Any) -> Any:
            return cost(jnp, state, control) / self.dt  # it multiplies by the time step

        def terminal_cost(self, state: Any) -> Any:
            return jnp.zeros(())

    reference = Reference(JudoTask(judo_task).task.model)
    planner = algs.MPPI(
        reference, samples, noise, temperature, plan_horizon=_HORIZON_S, num_knots=_KNOTS
    )
    planner.num_randomizations = models

    axes = None
    if models > 1:
        axes = jax.tree.map(lambda _: None, reference.model)
        axes = axes.tree_replace(dict.fromkeys(FIELDS, 0))

    def optimize(fields: dict[str, Array], data: Any, parameters: Any) -> tuple[Any, Any]:
        planner.model, planner.randomized_axes = reference.model.tree_replace(fields), axes
        return planner.optimize(data, parameters)

    def roll(model: Any, data: Any, controls: Any) -> Any:
        def step(state: Any, control: Any) -> tuple[Any, None]:
            return mjx.step(model, state.replace(ctrl=control)), None

        return jax.lax.scan(step, data, controls)[0].qpos

    many = jax.vmap(jax.vmap(roll, in_axes=(None, None, 0)), in_axes=(axes, None, None))

    def step(fields: dict[str, Array], data: Any, controls: Any) -> Any:
        if models > 1:
            return many(reference.model.tree_replace(fields), data, controls)
        return jax.vmap(roll, in_axes=(None, None, 0))(reference.model, data, controls)

    return _Compiled(planner, *map(jax.jit, (optimize, planner.get_action, step)))


def _randomized(task: Task, models: int, seed: int) -> dict[str, Array]:
    """Return the fields (M, ...) that differ in models with parameters drawn from the prior."""
    ensemble = Ensemble(task.model, task.parameters, models)
    ensemble.write(task.prior.sample(models, np.random.default_rng(seed)))
    return {name: ensemble.batch.expand(name).copy() for name in FIELDS}
