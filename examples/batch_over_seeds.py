"""Run a task with many seeds on all cores."""

import os

from joblib import Parallel, delayed

import emppi_ros as emppi

TASK = os.environ.get('TASK', 'panda_push')
DURATION_S = float(os.environ.get('DURATION_S', '15'))
SEEDS = range(int(os.environ.get('SEEDS', '20')))


def run(seed: int) -> tuple[bool, float]:
    """Return whether a run succeeds, and its final error."""
    trace = emppi.ClosedLoop(emppi.load_task(TASK), seed).run(DURATION_S)
    return trace.success, trace.frames[-1].error


results = Parallel(n_jobs=-1)(delayed(run)(seed) for seed in SEEDS)
for seed, (success, error) in zip(SEEDS, results, strict=True):
    print(f'seed {seed}: success {success}, final error {error:.4f}')
print(f'{sum(success for success, _ in results)} of {len(results)} runs succeed')
