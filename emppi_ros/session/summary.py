"""A closed loop's run in a few numbers."""

import numpy as np

from emppi_ros.core import weights
from emppi_ros.session.closed_loop import ClosedLoop
from emppi_ros.session.trace import Trace


def summarize(loop: ClosedLoop, controller: str, seed: int) -> dict[str, object]:
    """Return the run as the JSON object that `emppi run --json` prints."""
    trace, task = loop.trace, loop.task
    belief, monitor = loop.filter.belief, loop.filter.monitor
    outside = monitor.out_of_prior(belief)
    mean = weights.mean(belief.log_weights, belief.theta)
    sd = np.sqrt(np.diag(weights.covariance(belief.log_weights, belief.theta)))
    plan_ms = 1e3 * np.array(trace.plan_s) if trace.plan_s else np.array([np.nan])
    return {
        'task': task.name,
        'controller': controller,
        'seed': seed,
        **({'prior': task.prior.describe()} if task.prior.file else {}),
        'success': trace.success,
        'time_s': round(trace.success_time or loop.robot.time, 3),
        'steps': len(trace.plan_s),
        'real_time': task.file.real_time,
        **_attempts(trace),
        'final_error': trace.frames[-1].error,
        'parameters': {
            parameter.name: {
                'mean': float(mean[i]),
                'sd': float(sd[i]),
                'true': float(trace.truth[i]),
                'out_of_prior': parameter.name in outside,
                'unidentifiable': parameter.name in monitor.unidentifiable,
            }
            for i, parameter in enumerate(task.parameters)
        },
        'plan_ms': {
            'p50': float(np.percentile(plan_ms, 50)),
            'p99': float(np.percentile(plan_ms, 99)),
        },
        'diverged': trace.diverged,
    }


def _attempts(trace: Trace) -> dict[str, object]:
    """Return how many targets were tried, reached and lost, where they follow one another."""
    if not trace.attempts:
        return {}
    return {
        'attempts': {
            'all': len(trace.attempts),
            'reached': sum(one.reached for one in trace.attempts),
            'lost': sum(one.lost for one in trace.attempts),
        }
    }
