"""A study is a class in its own module and one line in the registry."""

from dataclasses import dataclass
import json
import sys
import types

import pytest

from emppi_ros.bench.identify import study
from emppi_ros.bench.identify.study import Study, option
from emppi_ros.cli import main


@dataclass(frozen=True)
class CoinOptions:
    sides: int = option(2, 'sides of the coin (2)', 'count')
    fair: bool = option(False, 'whether it is fair', 'flag')


class CoinStudy(Study):
    description = 'tosses of a coin'
    options = CoinOptions
    cases = {'penny': 3}

    def run(self, options, settings):
        return {'sides': options.sides, 'fair': options.fair, 'trials': settings.trials}

    def show(self, results):
        print(f'{results["trials"]} tosses')


@pytest.fixture
def coin(monkeypatch):
    module = types.ModuleType('coin_study')
    module.CoinStudy = CoinStudy
    monkeypatch.setitem(sys.modules, 'coin_study', module)
    monkeypatch.setitem(study.STUDIES, 'coin', 'coin_study:CoinStudy')


def test_one_line_registers_a_study_with_its_options_and_cases(coin, capsys):
    command = ['bench', 'identify', '--method', 'coin']
    assert main([*command, '--json', '--sides', '6', '--fair']) == 0
    assert json.loads(capsys.readouterr().out) == {'sides': 6, 'fair': True, 'trials': 3}
    assert main([*command, '--case', 'penny', '--trials', '5']) == 0
    assert capsys.readouterr().out == '5 tosses\n'
    assert main([*command, '--case', 'panda']) == 2
    assert '--case: found panda, expected penny for --method coin' in capsys.readouterr().err


@pytest.mark.parametrize('name', list(study.STUDIES))
def test_every_study_has_a_description(name):
    assert study.load(name).description
