"""A study is a class in its own module and one line in the registry."""

from dataclasses import dataclass
import json
import sys
import types

import pytest

from benchmarks.identify import study
from benchmarks.identify.study import Study
from emppi_ros.cli import main
from emppi_ros.core.config import key
from emppi_ros.identify.common import options as fields


@dataclass(frozen=True)
class CoinOptions:
    sides: int = fields.count(2, 'sides of the coin')
    fair: bool = key(False, doc='whether it is fair')


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
    assert main([*command, '--sides', '0']) == 2
    assert '--sides: found 0, expected a positive integer' in capsys.readouterr().err
    assert main([*command, '--rows', '10']) == 2
    assert '--rows: --method coin does not take it: leave it out' in capsys.readouterr().err
    assert main([*command, '--case', 'panda']) == 2
    assert '--case: found panda, expected penny for --method coin' in capsys.readouterr().err


@pytest.mark.parametrize('name', list(study.STUDIES))
def test_every_study_has_a_description(name):
    assert study.load(name).description
