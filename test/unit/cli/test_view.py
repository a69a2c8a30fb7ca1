"""`emppi view`: invalid options are reported before anything is served."""

import socket
import subprocess
import sys

import pytest

from emppi_ros.cli import main

pytest.importorskip('viser', reason="viser is not installed: pip install 'emppi_ros[view]'")


@pytest.mark.parametrize(
    ('words', 'said'),
    [
        (['panda_pusch'], ["'panda_pusch'", "did you mean 'panda_push'"]),
        ([], ['either a task', '--ros']),
        (['panda_push', '--ros'], ['either a task', '--ros']),
        (['cartpole_swingup', '--truth', 'mass'], ['--truth: ', "'mass'", 'name=value']),
    ],
)
def test_invalid_options_are_one_line_that_names_the_expected(words, said, capsys):
    assert main(['view', *words, '--port', '0']) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in said), error


def test_a_taken_port_is_named_and_no_other_is_tried(capsys):
    with socket.socket() as other:
        other.bind(('127.0.0.1', 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(['view', 'cartpole_swingup', '--port', str(port)]) == 2
    assert f'port {port} is taken' in capsys.readouterr().err


@pytest.mark.parametrize('text', ['-1', '65536', 'http'])
def test_an_invalid_port_is_rejected(text, capsys):
    with pytest.raises(SystemExit):
        main(['view', 'cartpole_swingup', '--port', text])
    assert 'must be a port from 0 to 65535' in capsys.readouterr().err


@pytest.mark.slow
def test_ctrl_c_ends_emppi_view_cleanly():
    command = [sys.executable, '-m', 'emppi_ros.cli', 'view', 'cartpole_swingup', '--port', '0']
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        process.send_signal(2)
        assert process.wait(60) == 0
    assert 'http://127.0.0.1:' in line
