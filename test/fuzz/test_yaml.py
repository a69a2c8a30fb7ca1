"""
Fuzzed YAML (row Y1): a legal object, or an error that names the file; nothing else, and soon.

EMPPI_FUZZ_YAML is the number of cases; `make fuzz` takes 100 000.
"""

import copy
import functools
import os
from pathlib import Path
import time
import warnings

import legal
import pytest
import yaml_cases

from emppi_ros.core.errors import EmppiError
from emppi_ros.model import scene
from emppi_ros.robots.robot import load_robot
from emppi_ros.tasks import switch_protocol, task, tuning
from emppi_ros.tasks.task import load_task, parse_task

CASES = int(os.environ.get('EMPPI_FUZZ_YAML', '150'))
FIRST = int(os.environ.get('EMPPI_FUZZ_FIRST', '0'))  # to look at one case again
CORPUS = Path(__file__).parent / 'corpus'  # kept by atheris_yaml.py: each took a way of its own
SLOW_S = 1.0  # of this thread's processor time, so that a busy machine is no failure


def read(kind, raw, path):
    """Read a case as it would arrive: robots in files; tasks in files and on the topic."""
    if kind == 'robots':
        path.write_bytes(raw)
        return legal.robot(load_robot(str(path)))
    try:
        text = raw.decode()
    except UnicodeDecodeError:  # cannot arrive on a topic
        path.write_bytes(raw)
        return legal.task(load_task(str(path)))
    return legal.task(parse_task(text, str(path)))


def verdict(kind, raw, path):
    """Return what is wrong with how a case was taken, '' if nothing is; and whether it was."""
    began = time.thread_time()
    try:
        found, taken = read(kind, raw, path), True
    except EmppiError as error:
        found, taken = '' if str(path) in str(error) else f'names no file: {error}', False
    except Exception as error:
        found, taken = f'{type(error).__name__}: {error}', False
    elapsed = time.thread_time() - began
    return found or (f'{elapsed:.1f} s' if elapsed > SLOW_S else ''), taken


@pytest.fixture
def quick(monkeypatch):
    """Compile every scene once, and read a task's robot once: the case is what is fuzzed."""
    compiled = functools.cache(scene.load_scene)
    monkeypatch.setattr(scene, 'load_scene', lambda *args: copy.copy(compiled(*args)))
    monkeypatch.setattr(task, 'load_robot', functools.cache(load_robot))


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_any_yaml_is_a_legal_object_or_a_named_error(quick, tmp_path, capfd):
    wrong, taken = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        for index in range(FIRST, FIRST + CASES):
            found, ok = verdict(*yaml_cases.case(index), tmp_path / 'case.yaml')
            taken += ok
            if found:
                wrong.append(f'case {index}: {found[:300]}')
    out, err = capfd.readouterr()
    assert not wrong, f'{len(wrong)} of {CASES}:\n' + '\n'.join(wrong[:20])
    assert (out, err) == ('', '')
    assert 0.02 * CASES < taken < 0.5 * CASES  # both ways are taken, or the cases test nothing
    print(f'{CASES} YAML texts: {taken} legal, {CASES - taken} refused by name, 0 others')


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_any_request_is_a_task_that_can_be_gone_over_to_or_a_named_error(quick, capfd):
    running, wrong, refused = load_task('panda_push'), [], 0
    before = tuning.to_text(running.data)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        for index in range(FIRST, FIRST + CASES):
            kind, raw = yaml_cases.case(index)
            text = raw.decode(errors='replace')
            try:
                switch_protocol.checked(
                    switch_protocol.requested(switch_protocol.tagged(text)),
                    'request',
                    running.robot,
                )
            except EmppiError as error:
                refused += 1
                if not switch_protocol.explain(error):
                    wrong.append(f'case {index} ({kind}): no reason')
            except Exception as error:
                wrong.append(f'case {index} ({kind}): {type(error).__name__}: {error}')
    out, err = capfd.readouterr()
    assert not wrong, f'{len(wrong)} of {CASES}:\n' + '\n'.join(wrong[:20])
    assert (out, err) == ('', '') and tuning.to_text(running.data) == before
    assert refused > 0.8 * CASES  # most are wrong, or for other robots
    print(f'{CASES} requests: {refused} refused by name, {CASES - refused} could be followed')


@pytest.mark.parametrize('index', range(len(yaml_cases.BOMBS)))
@pytest.mark.parametrize('kind', ['robots', 'tasks'])
def test_a_bomb_is_refused_by_name(kind, index, tmp_path):
    found, taken = verdict(kind, yaml_cases.BOMBS[index], tmp_path / 'case.yaml')
    assert (found, taken) == ('', False)


@pytest.mark.parametrize('base', range(len(yaml_cases.BASES)))
def test_the_files_that_cases_are_made_from_are_legal(base, tmp_path):
    kind, text, data = yaml_cases.BASES[base]
    for raw in (text.encode(), yaml_cases._emit(data).encode()):
        assert verdict(kind, raw, tmp_path / 'case.yaml') == ('', True)


@pytest.mark.parametrize('path', sorted(CORPUS.glob('*.txt')), ids=lambda path: path.stem)
@pytest.mark.parametrize('kind', ['robots', 'tasks'])
def test_what_guided_fuzzing_kept_is_refused_by_name(kind, path, tmp_path):
    assert verdict(kind, path.read_bytes(), tmp_path / 'case.yaml') == ('', False)
