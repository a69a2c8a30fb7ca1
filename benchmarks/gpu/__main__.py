"""
Measure plans and beliefs on a GPU within a time limit: `python3 -m benchmarks.gpu`.

It needs no installation: without an environment that has MuJoCo Warp it makes one. Each part is a
process with a limit of its own, which keeps its rows as it goes on; what fails or takes too long
is said at the end, and the other parts run all the same.
"""

import argparse
from collections.abc import Sequence
import json
import os
from pathlib import Path
import shutil
import signal
import subprocess
import sys
import time
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 480.0
HYDRAX = 'git+https://github.com/vincekurtz/hydrax@e06f1446c78f2d6da3eda24073f30f96208dcb3c'
HYDRAX_NEEDS = (
    'jax[cuda12]>=0.8', 'flax', 'interpax', 'evosax', 'etils[epath]', 'huggingface_hub',
    'mujoco>=4.0', 'trimesh', 'warp-lang>=1.15',
)  # fmt: skip
SIZES = '256,1024,4096,10000,32768'
QUICK = '20'
COLUMNS = 'part', 'task', 'n', 'steps', 'ms', 'rate_hz', 'steps_per_s', 'bare_ms', 'ratio', 'note'


class Part(NamedTuple):
    """A measurement: a function of `measure`, its task, and its limit [s]."""

    name: str
    task: str
    limit_s: float
    device: str = ''  # another one than that of the options
    sizes: str = ''


PARTS = (  # what was asked for first
    Part('plan', 'panda_push', 200.0),  # with the compilation of kernels
    Part('belief', 'panda_push', 80.0),
    Part('stepping', 'panda_push', 80.0),
    Part('plan', 'cartpole_swingup', 60.0),
    Part('plan', 'panda_push', 60.0, 'cpu', '1024'),
    Part('belief', 'panda_push', 30.0, 'cpu', '1024'),
)


class Runner:
    """Runs commands until a deadline, and keeps what failed."""

    def __init__(self, rows: Path, limit_s: float) -> None:
        """Begin now; rows are appended to a file."""
        self.rows, self.deadline = rows, time.monotonic() + limit_s

    @property
    def left_s(self) -> float:
        """The time until the deadline [s]."""
        return self.deadline - time.monotonic()

    def run(self, what: str, command: Sequence[str], limit_s: float, **environment: str) -> bool:
        """Run a command; return whether it succeeded in time, and add a row if it did not."""
        limit_s, began = min(limit_s, self.left_s), time.monotonic()
        if limit_s <= 0.0:
            self.add(what, 'no time left')
            return False
        print(f'{what} (at most {limit_s:.0f} s)', flush=True)
        log = self.rows.with_name(f'{what.replace(" ", "-")}.log')
        with log.open('w') as output:
            child = subprocess.Popen(
                command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, **environment},
            )  # fmt: skip
            try:
                status = child.wait(limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                self.add(what, f'not finished within {limit_s:.0f} s: {log.name}')
                return False
        if status:
            lines = log.read_text(errors='replace').strip().splitlines() or [f'status {status}']
            self.add(what, f'{lines[-1][:200]} ({log.name})')
        print(f'  {"failed" if status else "finished"} after {time.monotonic() - began:.0f} s')
        return not status

    def add(self, what: str, failed: str) -> None:
        """Add a row that says what failed."""
        with self.rows.open('a') as file:
            file.write(json.dumps({'part': what, 'failed': failed}) + '\n')


def find_python(venv: Path, runner: Runner, module: str = 'mujoco_warp') -> str | None:
    """Return an interpreter that has MuJoCo Warp; make its environment if there is none."""
    inside = str(venv / 'bin' / 'python')
    for python in (inside, sys.executable):
        probe = shutil.which(python) and subprocess.run(
            [python, '-c', f'import {module}, mujoco, yaml'], capture_output=True, check=False
        )
        if probe and probe.returncode == 0:
            return python
    made = runner.run('setup', [sys.executable, '-m', 'venv', str(venv)], 60.0)
    pip = [inside, '-m', 'pip', 'install', '--quiet', '--editable', '.[warp]']
    return inside if made and runner.run('setup: pip', pip, 200.0) else None


def measure_hydrax(runner: Runner, venv: Path, sizes: str) -> None:
    """Install Hydrax with JAX for CUDA in an environment of its own, and time its plans."""
    python, ready = str(venv / 'bin' / 'python'), venv / 'installed'
    if not ready.exists():
        pip = [python, '-m', 'pip', 'install', '--quiet']
        # editable, since its setup leaves out subpackages; it asks for a newer Python in vain
        source = ['--no-deps', '--ignore-requires-python', '--editable', f'{HYDRAX}#egg=hydrax']
        for what, command in {
            'setup': [sys.executable, '-m', 'venv', str(venv)],
            'source': [*pip, *source],
            'pip': [*pip, *HYDRAX_NEEDS],
            'mjx': [*pip, '--no-deps', 'mujoco-mjx==3.17.0'],
        }.items():
            if not runner.run(f'hydrax {what}', command, runner.left_s - 30.0):
                return
        ready.touch()
    command = [python, str(Path(__file__).with_name('hydrax_plans.py'))]
    runner.run('hydrax', [*command, '--sizes', sizes, '--rows', str(runner.rows)], runner.left_s)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table, and what failed below it."""
    lines = [' | '.join(COLUMNS), ' | '.join('---' for _ in COLUMNS)]
    for row in (row for row in rows if 'failed' not in row):
        cells = (row.get(name, '') for name in COLUMNS)
        lines.append(' | '.join(f'{c:.4g}' if isinstance(c, float) else str(c) for c in cells))
    text = '\n'.join(f'| {line} |' for line in lines)
    failed = [f'- {row["part"]}: {row["failed"]}' for row in rows if 'failed' in row]
    return text + ('\n\nFailed:\n\n' + '\n'.join(failed) if failed else '\n\nNothing failed.')


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all parts; the status is 1 if a part failed that is not Hydrax's."""
    parser = argparse.ArgumentParser(prog='python3 -m benchmarks.gpu', description=__doc__)
    parser.add_argument('--device', default='cuda', help='cuda, cuda:N, or warp-cpu')
    parser.add_argument('--venv', type=Path, default=Path('.venv-warp'), help='environment')
    parser.add_argument('--out', type=Path, default=Path('out/gpu'), help='folder of the results')
    parser.add_argument('--limit-s', type=float, default=LIMIT_S, help='for everything')
    parser.add_argument('--sizes', default=SIZES, help='rollouts or particles')
    parser.add_argument('--quick', action='store_true', help='so briefly that results say nothing')
    options = parser.parse_args(arguments)
    sizes = QUICK if options.quick else options.sizes
    options.out.mkdir(parents=True, exist_ok=True)
    rows = (options.out / 'rows.jsonl').resolve()
    rows.write_text('')
    runner = Runner(rows, options.limit_s)
    python = find_python(options.venv.absolute(), runner)
    for part in PARTS if python else ():
        command = [str(python), '-m', 'benchmarks.gpu.measure', part.name, '--task', part.task]
        device, count = part.device or options.device, part.sizes or sizes
        count = QUICK if options.quick else count
        command += ['--device', device, '--sizes', count, '--rows', str(rows)]
        command += ['--quick'] if options.quick else []
        # a busy machine compiles slowly
        limit_s = runner.left_s if options.quick else part.limit_s
        runner.run(f'{part.name} {part.task} {device}', command, limit_s, PYTHONPATH=str(ROOT))
    if options.quick:
        print('hydrax: left out (--quick)')
    else:
        venv = options.venv.absolute()
        measure_hydrax(runner, venv.with_name(f'{venv.name}-hydrax'), sizes)
    results = [json.loads(line) for line in rows.read_text().splitlines()]
    text = table(results)
    (options.out / 'results.md').write_text(text + '\n')
    print(text)
    return int(any('failed' in row and row['part'][:6] != 'hydrax' for row in results))


if __name__ == '__main__':
    sys.exit(main())
