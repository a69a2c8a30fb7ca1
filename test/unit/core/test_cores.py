"""Cores are those that affinity and the quota of a container leave."""

import os

import pytest

from emppi_ros.core import cores


@pytest.mark.parametrize(
    ('files', 'expected'),
    [
        ({}, None),
        ({'cpu.max': 'max 100000\n'}, None),
        ({'cpu.max': '50000 100000\n'}, 1),
        ({'cpu.max': '150000 100000\n'}, 2),
        ({'cpu/cpu.cfs_quota_us': '-1\n', 'cpu/cpu.cfs_period_us': '100000\n'}, None),
        ({'cpu/cpu.cfs_quota_us': '100000\n', 'cpu/cpu.cfs_period_us': '100000\n'}, 1),
        ({'cpu.max': 'nonsense\n'}, None),
    ],
)
def test_a_quota_counts_as_cores(tmp_path, files, expected):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    available = len(os.sched_getaffinity(0))
    assert cores.count(tmp_path) == min(available, expected or available)
