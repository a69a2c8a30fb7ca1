"""Diagnostics of several robots on one topic are told apart."""

from types import SimpleNamespace

import pytest

from emppi_ros.recordings.message_tables import diagnostic_name, statuses

NAMESPACES = ['', '/', 'left', '/left', 'cell/left', 'lef']


def message(*names):
    values = [SimpleNamespace(key='armed', value='True')]
    return SimpleNamespace(status=[SimpleNamespace(name=name, values=values) for name in names])


@pytest.mark.parametrize('namespace', NAMESPACES)
def test_only_nodes_of_the_namespace_are_read(namespace):
    own = namespace.strip('/')
    everything = message(
        *(diagnostic_name('bridge', space) for space in NAMESPACES), 'controller_manager: bridge'
    )
    expected = [space for space in NAMESPACES if space.strip('/') == own]
    found = list(statuses(everything, namespace))
    assert [name for name, _, _ in found] == ['bridge'] * len(expected)
    assert all(status.name == diagnostic_name('bridge', own) for _, status, _ in found)
    assert all(values == {'armed': 'True'} for _, _, values in found)


def test_without_a_namespace_names_are_as_layouts_expect():
    assert diagnostic_name('belief', '/') == 'emppi: belief'
    assert diagnostic_name('belief', '/left') == 'emppi: left/belief'
