"""The method `states`: least squares over states and parameters."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from emppi_ros.identify.common import figures, prior_output
from emppi_ros.identify.common import options as fields
from emppi_ros.identify.common.figures import Convergence, HeldOutForecast
from emppi_ros.identify.common.motion import resample
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.recordings import Recording, named_errors, recording_names
from emppi_ros.identify.methods import Identification, Method, RunSettings
from emppi_ros.identify.states import checks, fitting, forecast, lag, report
from emppi_ros.identify.states.solver import Iterate, Settings

_FORECAST_SAMPLES = 100


@dataclass(frozen=True)
class StatesOptions:
    """Options of the method `states`."""

    state_weight: float = fields.positive(
        Settings().state_weight,
        'weight of squared impulse errors against squared observation errors; too small fits '
        'noise, too large slows convergence',
    )
    spread: float = fields.spread()


class StatesMethod(Method):
    """Least squares over states and parameters, with a linearised posterior."""

    description = 'least squares over states and parameters'
    options = StatesOptions

    def identify(
        self, plant: Plant, recordings: Sequence[Recording], options: StatesOptions,
        run: RunSettings,
    ) -> Identification:  # fmt: skip
        """Fit each recording alone, then all together."""
        settings, names = Settings(state_weight=options.state_weight), recording_names(recordings)
        parts = []
        for name, recording in zip(names, recordings, strict=True):
            with named_errors(name):
                motion = resample(recording, plant.model, plant.bodies)
                parts.append(forecast.split(motion, run.held_out))
        searches = 1 if len(parts) == 1 else len(parts) + 1  # each alone, and all together
        most, costs = 2 * settings.iterations * searches, list[float]()
        with run.progress('states', most, 'iterations') as advance:

            def progress(iterate: Iterate) -> None:
                costs.append(iterate.mean_cost)
                advance(len(costs), f'mean cost {costs[-1]:.4g}')

            learned = [before for before, _ in parts]
            motion, result, notes = fitting.find(plant, learned, names, settings, progress)
            late = lag.find(plant, motion, settings, result)
            advance(most)
        draws = report.draw(plant, result, options.spread, run.seed)
        summary = report.summarize(plant, result)
        if late is not None:
            summary['command_lag_s'] = late.seconds
            notes = [*notes, *late.notes]
        if notes := [*notes, *checks.strays(plant, names, recordings, motion, result)]:
            summary['notes'] = '; '.join(notes)
        futures = list[HeldOutForecast]()
        for (before, later), rows in zip(parts, motion.parts, strict=True):
            if not later.steps:
                continue
            reached = replace(before, qpos=result.found.qpos[rows])
            drawn = forecast.forecast(plant, draws[:_FORECAST_SAMPLES], reached, later)
            futures.append(HeldOutForecast.of_motion(plant.model, later.qpos, drawn))
        if futures:
            summary['held_out_error'] = figures.forecast_error(futures)
        return Identification(
            summary,
            draws,
            prior_output.excited(result.knowledge),
            {
                'state_weight': settings.state_weight,
                'step_s': float(plant.model.opt.timestep),
                'spread': options.spread,
                'seed': run.seed,
                'held_out': run.held_out,
            },
            convergence=Convergence('mean cost', np.array(costs[-result.found.iterations :])),
            forecasts=lambda: futures,
        )
