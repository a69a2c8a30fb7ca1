"""Read what benchmarks published: rows of results, and sentences of pages that have no rows."""

import csv
import functools
import json
import lzma
import re

import numpy as np
from pages import ROOT
import yaml

WORDS = ('no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten')
NUMBER = r'[-+]?\d+(?:\.\d+)?'
_QUOTED = rf'({NUMBER}|\b(?i:none|{"|".join(WORDS)})\b)'
_KEYS = (  # what identifies a row, in any of the benchmarks
    'study', 'family', 'case', 'task', 'mechanism', 'dataset', 'video', 'sweep', 'values', 'world',
    'controller', 'estimator', 'planner', 'tracker', 'method', 'recording', 'outliers', 'seed',
    'models', 'rollouts', 'threads',
)  # fmt: skip


@functools.cache
def text(page):
    return (ROOT / page).read_text()


def places(page, sentence):
    """Return the matches of a sentence, in which `{}` stands for a number, or a number word."""
    parts = re.split(r'(\s+|\{\})', sentence)
    pattern = ''.join(
        _QUOTED if part == '{}' else r'\s+' if part.isspace() else re.escape(part)
        for part in parts
    )
    return list(re.finditer(pattern, text(page)))


def number(word):
    word = 'no' if word == 'none' else word.lower()
    return float(WORDS.index(word) if word in WORDS else word)


def said(page, sentence):
    """Return the numbers of a sentence that is once on a page."""
    found = places(page, sentence)
    assert len(found) == 1, f'{page}: {len(found)} times {sentence!r}'
    return [number(word) for word in found[0].groups()]


@functools.cache
def _all(folder):
    """Return the rows of a benchmark; a later row of a cell replaces an earlier one."""
    place, found = ROOT / 'docs' / folder, {}
    with lzma.open(place / 'rows.jsonl.xz', 'rt') as file:
        for row in map(json.loads, file):
            found[tuple(str(row.get(name)) for name in _KEYS)] = row
    if folder != 'results':
        return list(found.values())
    with (place / 'table.csv').open() as file:  # the page leaves out rows of other settings
        on_page = {_cell(line) for line in csv.DictReader(file)}
    return [row for row in found.values() if _cell(row) in on_page]


def _cell(row):
    return tuple(str(row[name] or 0) for name in _KEYS if name in ('models', 'rollouts')) + tuple(
        str(row[name]) for name in ('study', 'task', 'controller', 'seed')
    )


def rows(folder, **wanted):
    """Return the published rows with these values."""
    return [row for row in _all(folder) if all(row[k] == v for k, v in wanted.items())]


@functools.cache
def task(name):
    return yaml.safe_load(text(f'config/tasks/{name}.yaml'))


def runs(name, controller='emppi'):
    """Return the first runs of a task."""
    return rows('results', study='success', task=name, controller=controller)


def success(of):
    return sum(row['success'] for row in of)


def rate(of):
    """Return `18, 20` of 18 successes in 20 runs."""
    return [success(of), len(of)]


def median_s(of):
    return np.median([row['time_s'] for row in of])


def ends(values):
    """Return the least and the largest value."""
    return [min(values), max(values)]
