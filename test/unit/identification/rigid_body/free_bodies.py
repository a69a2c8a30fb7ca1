"""Fits of bodies that have no constraints but the typical prior, and no other torques."""

import math

import numpy as np

from emppi_ros.identification.rigid_body import body_posterior, torque_fit
from emppi_ros.identification.rigid_body.body_posterior import BodyConstraints, InertialPrior
from emppi_ros.identification.rigid_body.motion_samples import MotionSamples

PRIOR = InertialPrior()
ORDER = 5  # of differences


def difference_noise(series):
    """Return the standard deviation (..., nv) of the white noise in series (..., n, nv)."""
    rest = np.diff(series, ORDER, axis=-2)
    return np.sqrt(np.mean(rest**2, axis=-2) / math.comb(2 * ORDER, ORDER))


def unconstrained(prior, bodies):
    like = np.tile(prior.parameters(), bodies)
    return BodyConstraints(like, np.zeros(len(like)), np.ones(len(like), np.bool_))


def fit_bodies(information, score, prior=PRIOR):
    free = unconstrained(prior, len(score) // 12)
    return body_posterior.fit_bodies(information, score, prior, free)


def estimate_noise(samples):
    return MotionSamples(*(difference_noise(part) for part in samples))


def fit_torques(model, samples, noise=None, prior=PRIOR):
    shapes = np.zeros((*samples.torque.shape, 0))
    free = unconstrained(prior, model.nbody - 1)
    noise = noise or estimate_noise(samples)
    return torque_fit.fit_torques(model, samples, noise, prior, free, shapes)
