"""
Run the stages of .ci/stages one after the other, and print a table: stage, result, time, tests.

A stage passes if its script does, and if each test that it skips is listed in .ci/skips.toml.
A stage that depends on real time is run once more if it fails, with those of its tests that
failed; only a second failure counts. A script that exits with status 75 has verified that the
machine is too slow for what it tests: the table says `overloaded`, and the run does not fail.
Needs Python 3.11 and nothing else.
"""

from collections.abc import Sequence
import fnmatch
import os
from pathlib import Path
import re
import signal
import subprocess
import sys
import time
import tomllib
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / 'out' / 'ci'
OVERLOADED = os.EX_TEMPFAIL  # the exit status of a stage for which the machine is too slow
LIMIT_S = 1500.0  # of a stage, several times as long as any needs
TAIL = 60  # lines of a failed stage that are printed
CLOSING = re.compile(r'\b\d+ (passed|failed|skipped|deselected|errors?)\b.* in [\d.]+s\b')
SKIPPED = re.compile(r'SKIPPED \[(\d+)\] ([^:]+)(?::\d+)?: (.*)')


class Stage(NamedTuple):
    """A script in .ci/stages."""

    name: str
    real_time: bool = False  # whether a slow machine can fail it


STAGES = (
    Stage('system'),
    Stage('install'),
    Stage('lint'),
    Stage('test'),
    Stage('test-ros', real_time=True),
    Stage('test-alone', real_time=True),
    Stage('test-slow'),
    Stage('test-slow-alone', real_time=True),
    Stage('conformance', real_time=True),
    Stage('faults', real_time=True),
    Stage('swaps', real_time=True),
    Stage('demo', real_time=True),
    Stage('drake'),
    Stage('warp'),
    Stage('benchmarks'),
    Stage('peers'),
)


class Skip(NamedTuple):
    """Tests that were skipped: a line of pytest's summary."""

    count: int
    file: str
    reason: str


class Result(NamedTuple):
    """One run of a stage."""

    stage: str
    result: str
    seconds: float
    counts: dict[str, int]  # of tests, by outcome
    skips: tuple[Skip, ...]

    @property
    def failed(self) -> bool:
        """Whether the script failed, and not for want of a faster machine."""
        return self.result.startswith('failed')


def run(stage: Stage, attempt: int) -> Result:
    """Run a stage, keep its output in out/ci, and print the end of it if it fails."""
    print(f'\n=== {stage.name}{" again" if attempt > 1 else ""}', flush=True)
    log = LOGS / f'{stage.name}{"" if attempt == 1 else f"-{attempt}"}.log'
    options = f'--durations=20 -o cache_dir={LOGS}/cache/{stage.name}'  # of what failed
    if attempt > 1:
        options += ' --last-failed'
    start = time.monotonic()
    with log.open('wb') as out:
        process = subprocess.Popen(
            [str(ROOT / '.ci' / 'stages' / stage.name)],
            cwd=ROOT,
            env={**os.environ, 'PYTEST_ADDOPTS': options},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(LIMIT_S)
            result = {0: 'passed', OVERLOADED: 'overloaded'}.get(code, f'failed ({code})')
        except subprocess.TimeoutExpired:
            result = f'failed (over {LIMIT_S:g} s)'
        finally:
            end(process)
    lines = log.read_text(errors='replace').splitlines()
    shown = [line for line in lines if is_closing(line)]
    if result != 'passed':
        shown = [*lines[-TAIL:], *(x for x in lines if x.startswith(('FAILED ', 'ERROR ')))]
    print('\n'.join(shown))
    seconds = time.monotonic() - start
    print(f'{result} in {seconds:.0f} s; all of its output: {log.relative_to(ROOT)}', flush=True)
    return Result(stage.name, result, seconds, count_tests(lines), find_skips(lines))


def end(process: subprocess.Popen[bytes]) -> None:
    """End all that a stage has started and left behind."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # nothing was left
        pass
    process.wait()


def is_closing(line: str) -> bool:
    """Return whether a line closes the output of pytest."""
    return CLOSING.search(line) is not None


def count_tests(lines: Sequence[str]) -> dict[str, int]:
    """Return the numbers of tests by outcome, over all runs of pytest in an output."""
    counts: dict[str, int] = {}
    for line in filter(is_closing, lines):
        for number, outcome in re.findall(r'(\d+) (passed|failed|skipped|errors?)\b', line):
            counts[outcome] = counts.get(outcome, 0) + int(number)
    return counts


def find_skips(lines: Sequence[str]) -> tuple[Skip, ...]:
    """Return what pytest lists as skipped (option -ra)."""
    found = filter(None, map(SKIPPED.match, lines))
    return tuple(Skip(int(match[1]), match[2], match[3]) for match in found)


def judge_skips(results: Sequence[Result], everything: bool) -> list[str]:
    """Return a sentence for each skipped test that .ci/skips.toml does not allow."""
    allowed = tomllib.loads((ROOT / '.ci' / 'skips.toml').read_text())['skip']
    by_stage = {result.stage: result for result in results}  # the last run of each
    sentences = []
    for result in by_stage.values():
        for skip in result.skips:
            entry = next((e for e in allowed if matches(e, skip)), None)
            where = f'{result.stage}: {skip.file}: {skip.reason}'
            if entry is None:
                sentences.append(f'{where}: not in .ci/skips.toml')
            elif everything and 'stage' in entry:
                other = by_stage.get(entry['stage'])
                if (
                    other is None
                    or not other.counts.get('passed')
                    or any(matches(entry, one) for one in other.skips)
                ):
                    sentences.append(f'{where}: skipped in stage {entry["stage"]}, too')
    return sentences


def matches(entry: dict[str, str], skip: Skip) -> bool:
    """Return whether an entry of .ci/skips.toml is about a skipped test."""
    return fnmatch.fnmatch(skip.file, entry['file']) and entry['reason'] in skip.reason


def table(results: Sequence[Result]) -> list[str]:
    """Return the lines of the table."""
    lines = [('stage', 'result', 'seconds', 'tests', 'skipped')]
    for result in results:
        counts = result.counts
        tests, skipped = counts.get('passed', 0), counts.get('skipped', 0)
        lines.append((
            result.stage, result.result, f'{result.seconds:.0f}', str(tests or ''),
            str(skipped or ''),
        ))  # fmt: skip
    lines.append(('all', '', f'{sum(result.seconds for result in results):.0f}', '', ''))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        f'{stage:<{widths[0]}}  {result:<{widths[1]}}  {seconds:>{widths[2]}}  '
        f'{tests:>{widths[3]}}  {skipped:>{widths[4]}}'.rstrip()
        for stage, result, seconds, tests, skipped in lines
    ]


def main(names: Sequence[str]) -> int:
    """Run the stages that are named, or all; return an exit status."""
    known = [stage.name for stage in STAGES]
    if unknown := [name for name in names if name not in known]:
        print(f'error: no stage {", ".join(unknown)}; stages: {", ".join(known)}', file=sys.stderr)
        return 2
    LOGS.mkdir(parents=True, exist_ok=True)
    results = []
    for stage in STAGES:
        if names and stage.name not in names:
            continue
        for attempt in range(1, 2 + stage.real_time):
            results.append(run(stage, attempt))
            if results[-1].result == 'passed':
                break
    sentences = judge_skips(results, everything=not names)
    last = {result.stage: result for result in results}
    failed = [name for name, result in last.items() if result.failed]
    print('\n'.join(['', *table(results), '']))
    for sentence in sentences:
        print(f'error: {sentence}')
    if failed:
        print(f'error: failed: {", ".join(failed)}')
    print(f'stages: {len(last) - len(failed)} passed, {len(failed)} failed', flush=True)
    return int(bool(failed or sentences))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
