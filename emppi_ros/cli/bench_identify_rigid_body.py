"""`emppi bench identify --method rigid-body`: what is measured, as tables."""

import argparse
from typing import Any

from emppi_ros.bench.identify import payload_study, rigid_body_study
from emppi_ros.bench.identify.rigid_body_study import Setup
from emppi_ros.cli import output

CASES = 'panda', 'payload'  # the first is the usual one
TRIALS = {'payload': payload_study.MOTIONS}  # as many as usual, of the others


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
    of_payload = options.case == 'payload'
    setup = Setup(options.excitation, options.trials, options.seed)
    each = (
        len(payload_study.VARIANTS) * len(payload_study.LEVELS)
        if of_payload
        else len(rigid_body_study.LEVELS)
    )
    with output.progress('bodies', each * setup.trials, 'trials') as bar:
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            bar(done)

        rows = list((payload_study if of_payload else rigid_body_study).measure(setup, advance))
    if options.json:
        kind = {'truth': payload_study.TRUTH, 'rows': rows} if of_payload else {'levels': rows}
        print(output.to_json({'case': options.case, **setup._asdict(), **kind}))
    elif of_payload:
        _show_payload(rows)
    else:
        _show_panda(rows)


def _show_payload(rows: list[dict[str, Any]]) -> None:
    mass = payload_study.TRUTH['mass']
    print(f'the truth is {mass} kg; errors are of mass, centre and friction, rms')
    print(
        f'{"":22} {"rad":>6} {"N m":>4} {"seed":>4} {"mass":>8}    {"sd [kg]":7} {"error/sd":>8} '
        f'{"lag [ms]":>8} {"cpu [s]":>7}'
    )
    for row in rows:
        found = row.get('error') or (
            f'{row["mass"]:8.4f} +- {row["mass_sd"]:7.4f} {row["off_in_sd"]:8.2f} '
            f'{1e3 * row["torque_lag_s"]:8.2f} {row["cpu_s"]:7.1f}'
        )
        print(
            f'{row["variant"]:22} {row["noise_rad"]:6.0e} {row["noise_nm"]:4} {row["seed"]:4} '
            f'{found}'
        )


def _show_panda(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        print(f'noise {100.0 * row["noise"]:.0f} %')
        print(
            f'{"":20} {"torque":>9} {"possible":>9} {"tracking":>14} {"lost":>5}  '
            f'against {" and ".join(rigid_body_study.RIDGES)}'
        )
        for name, of in row['methods'].items():
            less = ' '.join(f'{-percent:+6.0f} %' for percent in of['below_percent'].values())
            print(
                f'{name:20} {of["torque_error"]:9.2e} {100.0 * of["possible"]:7.0f} % '
                f'{1e3 * of["tracking_rad"]:9.3f} mrad {of["lost"]:5} {less}'
            )
