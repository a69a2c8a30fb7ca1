"""
Compare seeded runs of two commits bit for bit: `compare_commits.py OLD [NEW]`.

Each commit is checked out into a temporary worktree and runs with the interpreter that runs this
script. A run is the same if its recording (CSV) has the same bytes and its JSON summary the same
values, apart from planning times and file names. Exit status 1 if any run differs.
"""

import argparse
import json
import os
from pathlib import Path
import subprocess
import sys
import tempfile

ROOT = Path(__file__).resolve().parents[2]
RUNS = (
    ('cartpole_swingup', 0), ('cartpole_swingup', 3), ('panda_push', 0), ('panda_push', 5),
    ('panda_drawer', 1), ('panda_cabinet', 2), ('panda_reconfigure', 4), ('fr3_follow', 1),
    ('halfcheetah_backflip', 0), ('adroit_door', 1),
)  # fmt: skip
NOT_COMPARED = ('plan_ms', 'recorded', 'truth_in')


def run(checkout: Path, task: str, seed: int, folder: Path) -> tuple[bytes, dict]:
    """Return the recording and the summary of one run of a checkout."""
    folder.mkdir(exist_ok=True)
    recording = folder / f'{task}-{seed}.csv'
    command = f'-m emppi_ros.cli run {task} --seed {seed} --json --record {recording}'
    done = subprocess.run(
        [sys.executable, *command.split()],
        env={**os.environ, 'PYTHONPATH': str(checkout)},
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
    )
    summary = json.loads(done.stdout.splitlines()[-1])
    kept = {key: value for key, value in summary.items() if key not in NOT_COMPARED}
    return recording.read_bytes(), kept


def main() -> int:
    """Compare all runs and print a line for each."""
    parser = argparse.ArgumentParser(description='Compare seeded runs of two commits.')
    parser.add_argument('old')
    parser.add_argument('new', nargs='?', default='HEAD')
    options = parser.parse_args()
    git = ['git', '-C', str(ROOT), 'worktree']
    different = 0
    with tempfile.TemporaryDirectory() as name:
        checkouts = [Path(name) / side for side in ('old', 'new')]
        for checkout, commit in zip(checkouts, (options.old, options.new), strict=True):
            subprocess.run([*git, 'add', '-q', '--detach', str(checkout), commit], check=True)
        try:
            for task, seed in RUNS:
                (rows, before), (others, after) = (
                    run(checkout, task, seed, Path(name) / f'{checkout.name}_runs')
                    for checkout in checkouts
                )
                keys = [k for k in {**before, **after} if before.get(k) != after.get(k)]
                same = rows == others and not keys
                different += not same
                words = 'same' if same else f'DIFFERENT: recording {rows != others}, {keys}'
                print(f'{task} seed {seed}: {words}', flush=True)
        finally:
            for checkout in checkouts:
                subprocess.run([*git, 'remove', '--force', str(checkout)], check=False)
    print(f'{len(RUNS) - different} of {len(RUNS)} runs are the same')
    return int(different > 0)


if __name__ == '__main__':
    sys.exit(main())
