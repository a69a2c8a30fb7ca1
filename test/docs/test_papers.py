"""
Pages of the papers agree with the pages and files that they quote.

In a table with a column `here`, each statement (up to a `;`) has its numbers, in this order, and
its `names` in one line or paragraph of a source: the linked section of a page, or a named file of
the repository. Sources are those of the cell, or else of the paragraph above the table.
"""

from decimal import Decimal
import functools
import re

from pages import ROOT
from published import text
import pytest

PAGES = [f'docs/papers/{name}.md' for name in ('emppi', 'video2sim', 'csvgd', 'furuta', 'ting')]
STATUSES = {'implemented', 'measured', 'differs', 'not done'}
NUMBER = re.compile(r'(?<![\w.%/])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+|/\d+)?(?!\w)')
LINK = re.compile(r'\[[^\]]*\]\(([^)#]*)#?([^)]*)\)')
FILE = re.compile(r'`((?:config|test)/[\w/]+\.\w+)`')
PLACE = re.compile(rf'`[\w/]+\.(?:py|yaml|xml)\b[^`]*`|`emppi [^`]*`|{LINK.pattern}')


def lines(source):
    """Return the lines of tables that have a status, by column, with the paragraph `above`."""
    all_rows, above = [], ''
    for block in re.split(r'\n\s*\n', source):
        if not block.startswith('|'):
            above = block
            continue
        rows = [[c.strip() for c in row.split('|')[1:-1]] for row in block.strip().splitlines()]
        assert {len(row) for row in rows} == {len(rows[0])}, f'lines of different lengths: {block}'
        all_rows += [{**dict(zip(rows[0], row, strict=True)), 'above': above} for row in rows[2:]]
    return [line for line in all_rows if 'status' in line]


@functools.cache
def pieces(page, anchor):
    """Return the lines of tables, items and paragraphs of a section, or of all."""
    whole = text(page)
    if anchor:
        heads = list(re.finditer(r'^(#+) (.+)$', whole, re.MULTILINE))
        slugs = [re.sub(r'[^\w\- ]', '', h[2].lower()).replace(' ', '-') for h in heads]
        first = heads[slugs.index(anchor)]
        later = [h.start() for h in heads if h.start() > first.start() and h[1] <= first[1]]
        whole = whole[first.end() : min(later, default=len(whole))]
    return re.split(r'\n\s*\n|\n(?=[|-])' if page.endswith('.md') else r'\n', whole)


def sources(words):
    """Return the pieces of all pages and files that some words name."""
    places = [(name, '') for name in FILE.findall(words)]
    for page, anchor in LINK.findall(words):
        if page and not page.startswith('http'):
            place = (ROOT / 'docs/papers' / page).resolve()
            places.append((place.relative_to(ROOT).as_posix(), anchor))
    return [piece for place in places for piece in pieces(*place)]


def agrees(quoted, value):
    """Return whether a value would be quoted so, rounded to its decimals; others are exact."""
    if '/' in quoted + value:  # successes and runs
        return quoted == value
    exponent = Decimal(quoted).as_tuple().exponent
    return abs(float(quoted) - float(value)) <= (exponent < 0) * 0.5 * 10.0**exponent + 1e-12


def is_said(statement, piece):
    """Return whether a piece of a source has the names and, in this order, the numbers."""
    names, there = re.findall(r'`([^`]+)`', FILE.sub('', statement)), iter(NUMBER.findall(piece))
    words = NUMBER.findall(re.sub(rf'`[^`]*`|{LINK.pattern}', '', statement))
    said = all(any(agrees(word, value) for value in there) for word in words)
    return said and all(name in piece for name in names)


def unsourced(line):
    """Return the statements in the column `here` that no source has."""
    known = sources(line['here']) or sources(line['above'])
    return [part.strip() for part in line['here'].split(';') if NUMBER.search(LINK.sub('', part))
            and not any(is_said(part, piece) for piece in known)]  # fmt: skip


ALL = [pytest.param(line, id=f'{page}: {next(iter(line.values()))[:50]}')
       for page in PAGES for line in lines(text(page))]  # fmt: skip


@pytest.mark.parametrize('line', ALL)
def test_numbers_and_states_are_those_of_their_source(line):
    states, here = set(line['status'].split(', ')), line.get('here', '')
    assert states <= STATUSES, f'expected some of {sorted(STATUSES)}'
    assert 'measured' not in states or NUMBER.search(here), 'measured: its number'
    assert states != {'not done'} or not NUMBER.search(here), 'not done, but it has a number'
    if states == {'implemented'}:
        assert PLACE.search(' '.join(line.values())), 'its module or file'
    elif 'measured' not in states:
        assert [*line.values()][-2], 'how it differs, or why it is not done'
    assert not (wrong := unsourced({'here': '', **line})), f'no line of the sources says {wrong}'


def test_pages_end_with_what_is_not_done():
    assert {re.findall(r'^## (.+)', text(page), re.M)[-1] for page in PAGES} == {'Not done'}


def test_the_test_finds_a_number_that_its_source_does_not_have():
    table = '[](../claims.md)\n\n| status | here |\n| - | - |\n| measured | 10 of 10; {} |\n'
    (right,), (wrong,) = (lines(table.format(n)) for n in ('median of 180', 'median of 181'))
    assert not unsourced(right) and unsourced(wrong) == ['median of 181']
