"""A method of one's own: a class, and its line in the registry."""

from dataclasses import dataclass, fields
import json

import numpy as np
import pytest
import yaml

from emppi_ros.cli import main
from emppi_ros.core.config import positive
from emppi_ros.identification import methods
from emppi_ros.identification.methods import Identification, Method


@dataclass(frozen=True)
class DummyOptions:
    """Options of the method below."""

    width: float = positive(0.1, 'half the range of the samples')
    particles: int = methods.particles(7)


class DummyMethod(Method):
    """Samples about the initial values, whatever was recorded."""

    description = 'the initial values'
    options = DummyOptions

    def identify(self, plant, recordings, options, run):
        steps = np.linspace(-options.width, options.width, options.particles)
        samples = plant.initial + steps[:, None]
        rows = {
            unknown.name: {'value': value, 'sd': sd, 'unit': unknown.unit, 'knowledge': 'vague'}
            for unknown, value, sd in zip(
                plant.unknowns, samples.mean(axis=0), samples.std(axis=0), strict=True
            )
        }
        everything = range(len(plant.unknowns))
        return Identification({'parameters': rows}, samples, everything, {'seed': run.seed})


@pytest.fixture
def registered(monkeypatch):
    """Add the line of the method above to the registry."""
    monkeypatch.setitem(methods.METHODS, 'dummy', f'{__name__}:DummyMethod')


@pytest.fixture
def words(tmp_path):
    """Return a command line with a recording and a model."""
    (tmp_path / 'link.xml').write_text(
        '<mujoco><worldbody><body name="link"><joint name="pivot"/>'
        '<geom size="0.1"/></body></worldbody></mujoco>'
    )
    model = tmp_path / 'model.yaml'
    model.write_text(
        'scene: link.xml\n'
        'parameters: {mass: {field: body_mass, of: link, unit: kg, initial: 2.0, lower: 0.1}}\n'
    )
    rows = np.column_stack([np.arange(200), np.sin(np.arange(200))]) * [0.01, 1.0]
    header = 'time_s,position/pivot [rad]'
    np.savetxt(tmp_path / 'run.csv', rows, delimiter=',', header=header, comments='')
    return ['identify', '--data', str(tmp_path / 'run.csv'), '--model', str(model), '--json']


@pytest.mark.usefixtures('registered')
def test_a_method_is_one_class_and_one_line(words, tmp_path, capsys):
    out, mjcf, report = tmp_path / 'prior.yaml', tmp_path / 'out.xml', tmp_path / 'report'
    outputs = ['--out', str(out), '--mjcf', str(mjcf), '--report', str(report)]
    assert main([*words, '--method', 'dummy', '--width', '0.5', *outputs]) == 0
    assert json.loads(capsys.readouterr().out)['parameters']['mass']['value'] == 2.0
    prior = yaml.safe_load(out.read_text())
    assert prior['method'] == 'dummy' and prior['settings'] == {'seed': 0, 'lag_s': 0.0}
    np.testing.assert_allclose(prior['parameters']['mass']['values'], np.linspace(1.5, 2.5, 7))
    assert (report / 'posterior.png').exists() and 'mass="2"' in mjcf.read_text()


@pytest.mark.usefixtures('registered')
def test_its_options_are_checked_and_shown(words, capsys):
    assert main([*words, '--method', 'dummy', '--width', '-1']) == 2
    assert '--width: found -1, expected a number above 0' in capsys.readouterr().err
    assert main([*words, '--method', 'states', '--width', '1']) == 2
    error = capsys.readouterr().err
    assert (
        '--width: --method states does not take it: leave it out, or use --method dummy' in error
    )
    with pytest.raises(SystemExit):
        main(['identify', '--help'])
    shown = ' '.join(capsys.readouterr().out.split())
    assert '--method dummy: --width WIDTH half the range of the samples (0.1)' in shown
    assert 'number of particles (csvgd: 100, filter: 300, dummy: 7)' in shown


def test_options_of_one_name_mean_the_same():
    documented = {}
    for name in methods.METHODS:
        for field in fields(methods.load(name).options):
            meaning = field.type, field.metadata['doc']
            assert documented.setdefault(field.name, meaning) == meaning


def test_options_have_defaults_and_methods_have_descriptions():
    for name in methods.METHODS:
        method = methods.load(name)
        method.options()
        assert method.description and '\n' not in method.description
