"""`emppi bench identify --method states`: what is measured, as tables."""

import argparse
from typing import Any

from emppi_ros.bench.identify import pendulum, states_study
from emppi_ros.cli import output


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    steps = len(pendulum.MODELS) * states_study.SERIES
    with output.progress('states', steps + 1, 'recordings') as bar:
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            bar(done)

        frictions = list(states_study.measure_pendulum(options.seed, advance))
        furuta = states_study.measure_furuta(options.seed)
        advance()
    if options.json:
        print(output.to_json({'seed': options.seed, 'pendulum': frictions, 'furuta': furuta}))
        return
    _show_pendulum(frictions)
    _show_furuta(furuta)


def _show_pendulum(rows: list[dict[str, Any]]) -> None:
    print(f'{"pendulum":<9} {"cost":>9} {"CV":>9} {"inertia off":>12} {"iterations":>10}')
    for row in rows:
        print(
            f'{row["friction"]:<9} {row["cost"]:9.2e} {row["cross_validation"]:9.2e} '
            f'{row["inertia_error_percent"]:10.3f} % {row["iterations"]:10}'
        )


def _show_furuta(found: dict[str, Any]) -> None:
    print(
        f'\nFuruta pendulum: {found["iterations"]} iterations, {found["seconds"]:.1f} s, '
        f'cost {found["cost"]:.2e}, worst of those found {found["worst_error_percent"]:.2f} %'
    )
    print(f'{"":<20} {"true":>10} {"found":>10} {"sd":>8} {"off":>8}')
    for name, row in found['parameters'].items():
        known = row['knowledge'] == 'found' and row['true'] != 0.0
        off = f'{row["error_percent"]:6.2f} %' if known else f'{row["knowledge"]:>8}'
        print(
            f'{name:<20} {row["true"]:10.4g} {row["found"]:10.4g} {row["sd"]:8.1e} {off}'
            f'  {row["unit"]}'
        )
