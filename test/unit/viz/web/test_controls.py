"""Confirmations belong to one client and expire when another client changes something."""

import threading
from types import SimpleNamespace

import pytest

from emppi_ros.core.errors import ArmError
from emppi_ros.viz.web.controls import Buttons, Operators


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


class Robot:
    """A source that keeps its requests; a reset lasts until it is let go."""

    def __init__(self):
        self.requests, self.name, self.reset_effect = [], 'a test', 'all'
        self.resetting, self.let_go = threading.Event(), threading.Event()

    def arm(self, armed):
        self.requests.append(('arm', armed))

    def pause(self, paused):
        self.requests.append(('pause', paused))

    def reset(self):
        self.resetting.set()
        assert self.let_go.wait(10.0)
        self.requests.append(('reset', True))


@pytest.fixture
def robot(server):
    robot = Robot()
    robot.operators = Operators(server, robot)
    robot.buttons = Buttons(server, robot, robot.operators, 'panda_push')
    return robot


def show(robot, armed, paused=False):
    now = SimpleNamespace(armed=armed, paused=paused, task=SimpleNamespace(name='panda_push'))
    robot.buttons.show(now)


def test_disarm_and_pause_act_at_once_and_what_moves_the_robot_asks(robot, server):
    one = server.join()
    show(robot, armed=True)
    robot.buttons._arm.press(one)
    robot.buttons._pause.press(one)
    assert robot.requests == [('arm', False), ('pause', True)] and not one.gui.added
    assert 'operator 1 paused the robot' in robot.operators._note.content
    show(robot, armed=False, paused=True)
    robot.buttons._arm.press(one)
    robot.buttons._pause.press(one)
    robot.buttons._reset.press(one)
    assert len(robot.requests) == 2
    assert [one.gui.named(f'{title}?') is not None for title in ('Arm', 'Resume', 'Reset')]


def test_disarm_does_not_wait_for_another_request(robot, server):
    one, two = server.join(), server.join()
    show(robot, armed=True)
    robot.buttons._reset.press(one)
    resetting = threading.Thread(target=one.gui.named('Yes').press, args=(one,))
    resetting.start()
    assert robot.resetting.wait(10.0)
    stopping = threading.Thread(target=robot.buttons._arm.press, args=(two,))
    stopping.start()
    stopping.join(5.0)
    assert robot.requests == [('arm', False)]  # while the reset goes on
    robot.let_go.set()
    resetting.join(10.0)
    stopping.join(10.0)


def test_a_stop_overtakes_a_question_that_was_asked_before_it(robot, server):
    one, two = server.join(), server.join()
    show(robot, armed=False)
    robot.buttons._arm.press(one)
    robot.buttons._pause.press(two)
    one.gui.named('Yes').press(one)
    assert robot.requests == [('pause', True)]
    assert 'meanwhile operator 2 paused the robot' in one.told[-1]
