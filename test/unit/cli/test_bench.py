"""A benchmark study is one module of benchmarks/studies."""

import sys
from types import SimpleNamespace

import pytest

from emppi_ros.cli import bench, main


@pytest.fixture
def ran(monkeypatch):
    """Register a dummy study; return what it was run with."""
    calls = []

    def add_command(studies):
        parser = studies.add_parser('dummy', help='do nothing')
        parser.add_argument('--size', type=int, default=1)
        parser.set_defaults(execute=lambda options: calls.append(options.size))

    module = SimpleNamespace(add_command=add_command)
    monkeypatch.setitem(sys.modules, 'benchmarks.studies.dummy', module)
    monkeypatch.setattr(bench, 'STUDIES', (*bench.STUDIES, 'dummy'))
    return calls


def test_a_study_is_run(ran):
    assert main(['bench', 'dummy', '--size', '3']) == 0
    assert ran == [3]


@pytest.mark.usefixtures('ran')
def test_the_help_lists_every_study(capsys):
    with pytest.raises(SystemExit):
        main(['bench', '--help'])
    text = capsys.readouterr().out
    for name in ('planner', 'paper', 'video', 'watched', 'dummy'):
        assert f'\n    {name} ' in text


def test_an_installed_package_names_the_studies_that_need_a_checkout(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(bench, 'CHECKOUT', tmp_path)
    with pytest.raises(SystemExit):
        main(['bench', '--help'])
    text = ' '.join(capsys.readouterr().out.split())
    assert 'planner' in text and 'paper and belief' in text and 'in a checkout' in text
    with pytest.raises(SystemExit):
        main(['bench', 'paper'])
