"""The method `rigid-body`: the bodies of an arm, from its torques."""

from collections.abc import Sequence
from dataclasses import asdict
import functools
from typing import Any

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.identification.common import posterior_samples
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.methods import Identification, Method, RunSettings
from emppi_ros.identification.rigid_body import composite_bodies, inference, report
from emppi_ros.identification.rigid_body import recordings as arm_recordings
from emppi_ros.identification.rigid_body.body_posterior import PRIOR
from emppi_ros.identification.rigid_body.composite_bodies import BodyInertial
from emppi_ros.identification.rigid_body.torque_fit import RigidBodyOptions
from emppi_ros.recordings.recordings import Recording

_OVERSAMPLING = 4  # samples per sample of the prior: some lie outside of the bounds
_SIGNIFICANT = 3.0  # standard deviations of a rotor inertia that is written
_STAGES = 3  # of the progress bar


class RigidBodyMethod(Method):
    """Physically consistent inertial parameters of an arm, from its joint torques."""

    description = 'masses, centres and inertias of the bodies of an arm, from its torques'
    options = RigidBodyOptions

    def identify(
        self, plant: Plant, recordings: Sequence[Recording], options: RigidBodyOptions,
        run: RunSettings,
    ) -> Identification:  # fmt: skip
        """Fit each recording alone, then all together."""
        plant.require_inverse()
        with run.progress('rigid-body', _STAGES, 'stages') as advance:
            armature = options.armature == 'unknown'
            arm = arm_recordings.read(plant, *recordings, held_out=run.held_out, armature=armature)
            advance(1)
            estimate = inference.identify_bodies(plant, arm, options)
            advance(2)
            draws = report.draw(estimate, 1.0, posterior_samples.PRIOR_SAMPLES, run.seed)
            forecasts = report.forecast(estimate, draws)
            advance(_STAGES)
        theta = draws.values(estimate)
        summary = report.summarize(plant, estimate, draws)
        report.check(plant, summary, theta)
        summary |= report.summarize_forecasts(arm, forecasts)
        kept = posterior_samples.excited(
            [row['knowledge'] for row in summary['parameters'].values()]
        )

        @functools.cache
        def prior_samples() -> Array:
            wide = report.draw(
                estimate, options.spread, _OVERSAMPLING * posterior_samples.PRIOR_SAMPLES, run.seed
            )
            return report.within_bounds(plant, kept, wide.values(estimate))

        if run.out is not None:  # the most probable value is not the median of bounded ones
            medians = np.median(prior_samples(), axis=0).tolist()
            for column, median in zip(kept, medians, strict=True):
                summary['parameters'][plant.unknowns[column].name]['prior_median'] = median
        return Identification(
            summary,
            theta,
            kept,
            {
                **asdict(options),
                'window_s': [recording.training.window_s for recording in estimate.arm.recordings],
                'weight': PRIOR.weight,
                'seed': run.seed,
                'held_out': run.held_out,
            },
            prior_samples,
            forecasts=lambda: report.futures(arm, forecasts, run.seed),
            to_mjcf=lambda: to_mjcf(plant, summary, options),
        )


def to_mjcf(plant: Plant, summary: dict[str, Any], options: RigidBodyOptions) -> str:
    """Return the scene with the estimated bodies, and what MJCF has of friction and rotors."""
    bodies = {name: BodyInertial(*row.values()) for name, row in summary['bodies'].items()}
    sd = summary['armature_sd']  # torques at the links do not have the inertia of rotors
    joints = {
        'armature': {n: x for n, x in summary['armature'].items() if x > _SIGNIFICANT * sd[n] > 0}
    }
    if options.friction != 'none':
        joints['damping'] = summary['friction']
    if options.dry:
        joints['frictionloss'] = {n: max(x, 0.0) for n, x in summary['dry_friction'].items()}
    step = float(plant.model.opt.timestep)
    return composite_bodies.to_mjcf(arm_recordings.scene_file_of(plant), bodies, joints, step)
