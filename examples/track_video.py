"""Find the poses of a cart in a depth video."""

import os
from pathlib import Path
import tempfile

import emppi_ros as emppi
from emppi_ros.cli import main

folder = Path(tempfile.mkdtemp())
video, parts = folder / 'video.npz', folder / 'parts.yaml'
# The video: replace it by your own, an NPZ file, a folder of PNG files, or a bag.
main(
    [
        'run',
        'cartpole_swingup',
        '--duration',
        os.environ.get('DURATION_S', '3'),
        '--depth',
        str(video),
    ]
)
parts.write_text('scene: cartpole.xml\nparts: {cart: {}}\n')

tracked = emppi.track(video, parts)
for name, result in tracked.summary().items():
    print(f'{name}: tracked in {result["tracked"]} of {len(tracked.time)} images')
cart = tracked.tracks.parts[0]
print(f'x from {cart.poses.position[0, 0]:.3f} m to {cart.poses.position[-1, 0]:.3f} m')
