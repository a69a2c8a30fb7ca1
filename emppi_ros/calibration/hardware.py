"""The machine and the software versions of a benchmark."""

from collections.abc import Mapping
import functools
import os
from pathlib import Path
import platform
import subprocess

import mujoco
import numpy
import scipy

import emppi_ros
from emppi_ros.core import paths


@functools.cache
def processor() -> str:
    """Return the name of the processor."""
    try:
        lines = Path('/proc/cpuinfo').read_text(encoding='utf-8').splitlines()
    except OSError:  # not Linux
        lines = []
    models = [line.partition(':')[2].strip() for line in lines if line.startswith('model name')]
    return models[0] if models else platform.processor() or platform.machine()


@functools.cache
def commit() -> str:
    """Return the git commit of a checkout, with a + if files are changed; '' without git."""
    if not (paths.PACKAGE.parent / '.git').exists():  # installed, perhaps inside another checkout
        return ''
    command = ['git', '-C', str(paths.PACKAGE), 'describe', '--always', '--dirty=+', '--exclude=*']
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):  # git is missing or fails
        return ''
    return result.stdout.strip()


@functools.cache
def label() -> str:
    """Return version, commit and processor in one line."""
    return f'emppi_ros {emppi_ros.__version__} {commit()}'.strip() + f' on {processor()}'


def describe() -> Mapping[str, str]:
    """Return the machine and software versions by name."""
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    return {
        'processor': processor(),
        'cores': str(os.cpu_count()),
        'memory': f'{memory / (1 << 30):.1f} GiB',
        'system': f'{platform.system()} {platform.release()}',
        'Python': platform.python_version(),
        'MuJoCo': mujoco.__version__,
        'NumPy': numpy.__version__,
        'SciPy': scipy.__version__,
        'emppi_ros': emppi_ros.__version__,
        'commit': commit() or 'none: not a git checkout',
    }
