"""`emppi bench identify --method rigid-body`: what is measured, as tables."""

import argparse

from emppi_ros.cli import output
from emppi_ros.identify.rigid import benchmark


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what only this method knows."""
    group = parser.add_argument_group('rigid-body')
    group.add_argument(
        '--excitation',
        choices=('chosen', 'drawn'),
        default='chosen',
        help='the motion to learn from: chosen for its information, or at random (chosen)',
    )


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    setup = benchmark.Setup(options.excitation, options.trials, options.seed)
    with output.progress('bodies', len(benchmark.LEVELS) * setup.trials, 'trials') as bar:
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            bar(done)

        rows = benchmark.measure(setup, advance)
    if options.json:
        print(output.to_json({**setup._asdict(), 'levels': rows}))
        return
    for row in rows:
        print(f'noise {100.0 * row["noise"]:.0f} %')
        print(
            f'{"":20} {"torque":>9} {"possible":>9} {"tracking":>14} {"lost":>5}  '
            f'against {" and ".join(benchmark.RIDGES)}'
        )
        for name, of in row['methods'].items():
            less = ' '.join(f'{-percent:+6.0f} %' for percent in of['below_percent'].values())
            print(
                f'{name:20} {of["torque_error"]:9.2e} {100.0 * of["possible"]:7.0f} % '
                f'{1e3 * of["tracking_rad"]:9.3f} mrad {of["lost"]:5} {less}'
            )
