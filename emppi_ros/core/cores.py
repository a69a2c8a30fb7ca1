"""Count the processor cores that this process may use."""

import math
import os
from pathlib import Path

_CGROUP = Path('/sys/fs/cgroup')


def count(cgroup: Path = _CGROUP) -> int:
    """Return how many cores affinity and the quota of a container leave, at least 1."""
    try:
        affinity = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        affinity = os.cpu_count() or 1
    return max(1, min(affinity, math.ceil(_quota(cgroup))))


def _quota(cgroup: Path) -> float:
    """Return the quota in cores of cgroup v2, else v1; a large number if there is none."""
    try:
        quota, period = (cgroup / 'cpu.max').read_text().split()
    except (OSError, ValueError):
        try:
            quota = (cgroup / 'cpu' / 'cpu.cfs_quota_us').read_text().strip()
            period = (cgroup / 'cpu' / 'cpu.cfs_period_us').read_text().strip()
        except OSError:
            return 1e9
    try:
        cores = float(quota) / float(period)
    except (ValueError, ZeroDivisionError):  # `max`
        return 1e9
    return cores if cores > 0.0 else 1e9  # -1
