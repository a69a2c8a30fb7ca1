"""What outdates rows: code and tasks, but neither comments nor layout."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from benchmarks import digests
from benchmarks.digests import task_digest
from benchmarks.paper.cells import changed
from emppi_ros.core import config
from emppi_ros.core.errors import BenchError
from emppi_ros.tasks.task import task_text


@pytest.fixture
def digest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes files into a checkout, and returns the digest of all."""
    monkeypatch.setattr(digests.paths, 'PACKAGE', tmp_path / 'emppi_ros')

    def write_and_digest(files: dict[str, str], **options: tuple[str, ...]) -> str:
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        return digests.code_digest.__wrapped__('*.*', **options)  # without its cache

    return write_and_digest


def test_code_counts_but_neither_comments_nor_docstrings(digest: Callable[..., str]) -> None:
    before = digest({'filter.py': 'def f():\n    return 1\n'})
    documented = '"""A filter."""\n\ndef f():\n    """Filter."""\n    return 1  # a reason\n'
    assert digest({'filter.py': documented}) == before
    assert digest({'filter.py': 'def f():\n    return 2\n'}) != before


def test_other_files_count_as_they_are(digest: Callable[..., str]) -> None:
    assert digest({'arm.xml': '<a/>'}) != digest({'arm.xml': '<a/><!-- a comment -->'})


def test_files_that_are_left_out_do_not_count(digest: Callable[..., str]) -> None:
    first, second = (
        digest({'a.py': 'x = 1', 'b.py': text}, without=('b.py',)) for text in ('y = 1', 'y = 2')
    )
    assert first == second != digest({})


@pytest.mark.usefixtures('digest')
def test_a_file_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(BenchError, match=r'learned\.py: no such file in'):
        digests.code_digest('learned.py')


def test_comments_and_layout_do_not_change_the_digest_of_a_task() -> None:
    text = task_text('cartpole_swingup')
    assert task_digest(f'# a comment\n{text}') == task_digest(text)
    assert task_digest(changed(text, {'calibration': None})) == task_digest(text)
    rewritten = changed(text, {})  # no comments, another layout
    assert rewritten != text and task_digest(rewritten) == task_digest(text)


def test_the_folder_of_a_scene_does_not_change_the_digest_of_a_task() -> None:
    text = task_text('cartpole_swingup')
    places = [changed(text, {'scene': f'/{folder}/arm.xml'}) for folder in ('home', 'tmp')]
    assert task_digest(places[0]) == task_digest(places[1]) != task_digest(text)


def test_a_value_and_the_order_of_parameters_change_the_digest_of_a_task() -> None:
    text = task_text('cartpole_swingup')
    data = config.parse(text, 'task')
    for key, value in (('duration_s', data['duration_s'] + 1.0), ('planner', {'models': 2})):
        assert task_digest(changed(text, {key: value})) != task_digest(text)
    reversed_ = {**data, 'parameters': dict(reversed(data['parameters'].items()))}
    assert task_digest(yaml.safe_dump(reversed_, sort_keys=False)) != task_digest(text)
