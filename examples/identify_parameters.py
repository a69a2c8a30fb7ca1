"""Estimate masses and damping from a recorded motion."""

import os
from pathlib import Path
import tempfile

import emppi_ros as emppi
from emppi_ros.cli import main

recording = Path(tempfile.mkdtemp()) / 'run.csv'
# The recording: replace it by your own, a table or a bag.
main(
    [
        'run',
        'cartpole_swingup',
        '--duration',
        os.environ.get('DURATION_S', '3'),
        '--record',
        str(recording),
    ]
)

result = emppi.identify([recording], emppi.load_task('cartpole_swingup'), method='states')
for name, row in result.summary['parameters'].items():
    print(f'{name}: {row["value"]:.3g} {row["unit"]}, standard deviation {row["sd"]:.2g}')
