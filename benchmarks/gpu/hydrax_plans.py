"""Time plans of Hydrax's MPPI on its cart-pole; its own interpreter runs this file alone."""

import argparse
import importlib
import json
import statistics
import time
from typing import Any

REPEATS = 20


def measure(samples: int, physics: str) -> dict[str, Any]:
    """Return the median time of a plan with a number of samples, by MJX in JAX or in Warp."""
    jax = importlib.import_module('jax')
    algs, cart_pole = map(importlib.import_module, ('hydrax.algs', 'hydrax.tasks.cart_pole'))
    task = cart_pole.CartPole(impl=physics)
    planner = algs.MPPI(task, samples, 0.3, 0.1, plan_horizon=1.0, num_knots=4)
    plan, data, parameters = jax.jit(planner.optimize), task.make_data(), planner.init_params()
    times = []
    for _ in range(REPEATS + 1):  # the first compiles
        began = time.perf_counter()
        parameters, _ = plan(data, parameters)
        jax.block_until_ready(parameters)
        times.append(time.perf_counter() - began)
    median = statistics.median(times[1:])
    steps = planner.ctrl_steps
    return {
        'part': 'hydrax', 'task': 'its cart-pole', 'n': samples, 'steps': steps,
        'ms': 1e3 * median, 'rate_hz': 1.0 / median, 'steps_per_s': samples * steps / median,
        'note': f'{physics} on {jax.devices()[0].device_kind}; first plan {times[0]:.0f} s',
    }  # fmt: skip


def main() -> None:
    """Append a row for each number of samples."""
    parser = argparse.ArgumentParser()
    parser.add_argument('--sizes', required=True)
    parser.add_argument('--rows', required=True)
    options = parser.parse_args()
    for size in map(int, options.sizes.split(',')):
        for physics in ('jax', 'warp'):
            try:
                row = measure(size, physics)
            except Exception as error:  # whatever fails there, the others may run
                row = {'part': f'hydrax {physics} {size}', 'failed': f'{error}'[:200]}
            with open(options.rows, 'a', encoding='utf-8') as file:
                file.write(json.dumps(row) + '\n')


if __name__ == '__main__':
    main()
