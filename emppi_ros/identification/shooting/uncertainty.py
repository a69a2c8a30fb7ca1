r"""
Covariance of the parameters that allows for errors of the model.

White noise gives H^-1, where H is the information of Student's t (Lange, Little and Taylor 1989):
(nu + 1) / (nu + 3) times that of the weighted squares. Correlated errors of a model give
H^-1 S H^-1 (White 1982), where S is the covariance of the sum of the scores of windows, with
Bartlett weights for those that follow one another (Newey and West 1987), but at least H.

Displacements of inferred joints (`common/inferred_joints`) change the motions of all windows, and
the estimate by -H^-1 A' M times that change.
"""

from dataclasses import replace

import mujoco
import numpy as np
import scipy.linalg

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common.inferred_joints import displaced_models
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.multiple_shooting.simulation import Inputs, make_ensemble, roll_out
from emppi_ros.identification.multiple_shooting.windows import FREEDOM, score_covariance
from emppi_ros.identification.shooting.estimation import ShootingEstimate
from emppi_ros.recordings.motion import Motion

_EXPECTED = (FREEDOM + 1.0) / (FREEDOM + 3.0)


def covariance(result: ShootingEstimate) -> Array:
    """Return the covariance (P, P) in the scales, with a prior variance of one."""
    information, scores = _EXPECTED * result.information, result.scores
    count, size = scores.shape
    sums = score_covariance(scores, result.windows.recordings)
    sums *= count / max(count - 1, 1)  # at the estimate, scores have a sum of zero
    bounded = information + np.eye(size)  # with the prior
    inverse = np.linalg.inv(bounded)
    sums = _at_least(sums + np.eye(size), bounded)
    sandwich: Array = inverse @ sums @ inverse
    return sandwich


def joint_covariance(
    plant: Plant, motion: Motion, result: ShootingEstimate, threads: int = 0
) -> Array:
    """
    Return the covariance (P, P), in the scales, that errors of inferred joints add.

    It is 0 if no place of a joint is uncertain. IdentificationError if the model diverges with a
    joint one standard deviation away.
    """
    size = len(result.theta)
    information, total = result.information + np.eye(size), np.zeros((size, size))

    def positions(model: mujoco.MjModel) -> Array:
        ensemble = make_ensemble(replace(plant, model=model), 1, result.windows.count, threads)
        ensemble.write(result.theta[None])
        windows, inputs = result.windows, Inputs.of_motion(motion)
        states, diverged = roll_out(ensemble, inputs, windows.steps, result.starts[None])
        if diverged.any():
            raise IdentificationError(
                'the model diverges with an inferred joint one standard deviation away: record a '
                'motion that shows the joints better'
            )
        return states[0, ..., : model.nv]

    for ahead, behind in displaced_models(plant.model, plant.parameters):
        change = 0.5 * (positions(ahead) - positions(behind))
        scores = np.einsum('whvp,whv->p', result.influence, change)
        step = np.linalg.solve(information, scores)
        total += np.outer(step, step)
    return total


def _at_least(matrix: Array, least: Array) -> Array:
    """Return a matrix (P, P) whose quadratic form is nowhere below that of another one."""
    ratios, vectors = scipy.linalg.eigh(0.5 * (matrix + matrix.T), least)
    basis = least @ vectors  # vectors' least vectors = 1
    return np.asarray(basis @ np.diag(np.maximum(ratios, 1.0)) @ basis.T)
