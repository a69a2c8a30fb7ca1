"""A recorded run: what the plots and the video are made from, with or without ROS."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from emppi_ros.session.trace import Trace

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Recording:
    """Series of a run; times [s] count from its start, durations are in milliseconds."""

    times: Array  # (n,)
    qpos: Array  # (n, nq) true positions
    error: Array  # (n,) length of the success residual
    belief_times: Array  # (b,)
    belief_theta: Array  # (b, M, P)
    belief_weights: Array  # (b, M), each row sums to 1
    plan_ms: Array  # (c,)
    bridge_period_ms: Array  # (k,), empty where no bridge ran by the clock
    truth: Array  # (P,)
    ess: Array  # (b,) effective sample size before resampling


def of_trace(trace: Trace) -> Recording:
    """Return the recording of a closed loop's trace."""
    frames, beliefs = trace.frames, trace.beliefs
    particles = np.array([belief.theta for _, belief in beliefs])
    return Recording(
        times=np.array([frame.time for frame in frames]),
        qpos=np.array([frame.qpos for frame in frames]),
        error=np.array([frame.error for frame in frames]),
        belief_times=np.array([stamp for stamp, _ in beliefs]),
        belief_theta=particles if beliefs else np.empty((0, 0, len(trace.truth))),
        belief_weights=np.exp([belief.log_weights for _, belief in beliefs])
        if beliefs
        else np.empty((0, 0)),
        plan_ms=1e3 * np.array(trace.plan_s),
        bridge_period_ms=np.empty(0),
        truth=trace.truth,
        ess=np.array(trace.ess),
    )
