"""Confirmations belong to one client and expire when another client changes something."""

from types import SimpleNamespace

import pytest

from emppi_ros.core.errors import ArmError
from emppi_ros.viz.web.controls import Operators


@pytest.fixture
def operators(server):
    return Operators(server, SimpleNamespace(name='a test'))


def ask(operators, client, done, what='armed the robot'):
    operators.confirm(client, 'Arm?', 'It moves.', what, lambda: done.append(what))


def test_only_the_requesting_client_is_asked_and_nothing_happens_before(operators, server):
    one, two, done = server.join(), server.join(), []
    ask(operators, one, done)
    assert two.gui.added == [] and done == []
    one.gui.named('Yes').press(one)
    assert done == ['armed the robot']
    assert one.gui.named('Arm?').closed
    assert 'operator 1 armed the robot' in operators._note.content


def test_no_does_nothing(operators, server):
    one, done = server.join(), []
    ask(operators, one, done)
    one.gui.named('No').press(one)
    one.gui.named('Yes').press(one)  # a second press, on a question that is gone
    assert done == []


def test_an_outdated_confirmation_is_refused_and_names_the_change(operators, server):
    one, two, done = server.join(), server.join(), []
    ask(operators, one, done, 'armed the robot')
    ask(operators, two, done, 'reset all')
    two.gui.named('Yes').press(two)
    one.gui.named('Yes').press(one)
    assert done == ['reset all']
    assert 'meanwhile operator 2 reset all' in one.told[-1]
    assert 'ask again' in one.told[-1]


def test_a_refusal_notifies_the_client_and_is_not_logged(operators, server):
    one, two = server.join(), server.join()

    def refuse() -> None:
        raise ArmError('joint states are late. Disarm to acknowledge this, then arm again')

    before = operators._note.content
    assert not operators.do(one, 'armed the robot', refuse)
    assert 'joint states are late' in one.told[-1]
    assert not any('late' in line for line in two.told)
    assert operators._note.content == before


def test_a_disconnected_client_is_not_asked(operators):
    given_up = []
    operators.confirm(None, 'Arm?', '', 'armed', lambda: given_up.append('armed'), lambda: None)
    assert given_up == []


def test_names_on_the_page_are_escaped(operators, server):
    operators.log('operator 1 chose <b>x</b>')
    assert '&lt;b&gt;' in operators._note.content
