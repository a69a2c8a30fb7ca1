"""What travels as text is the same bits afterwards, and is taken down only for listeners."""

from collections import deque
import json
import math

from hypothesis import given, strategies
from hypothesis.extra import numpy as arrays
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.core.errors import ReplayError
from emppi_ros.journal import snapshot
from emppi_ros.journal.journal import Journal, Journaled, journaled
from emppi_ros.priors.particles import Belief
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.hold_timer import HoldTimer


def travelled(value):
    return snapshot.decode(json.loads(json.dumps(snapshot.encode(value))))


@given(arrays.arrays(np.float64, arrays.array_shapes(min_side=0, max_dims=3)))
def test_every_bit_of_an_array_arrives(array):
    arrived = travelled(array)
    assert arrived.shape == array.shape and arrived.tobytes() == array.tobytes()


@given(strategies.floats(allow_nan=False))
def test_every_float_arrives(value):
    arrived = travelled(value)
    assert arrived == value and math.copysign(1.0, arrived) == math.copysign(1.0, value)


def test_structures_arrive(rng):
    for quaternion in rng.normal(size=(50, 4)):  # many are normal but for a rounding
        turn = Rotation.from_quat(quaternion)
        track = Track(1.5, np.ones(3), np.zeros(3), turn, -np.ones(3), np.eye(2), np.eye(2))
        arrived = travelled({'block': track, 'none': None})
        assert arrived['none'] is None and isinstance(arrived['block'], Track)
        assert arrived['block'].rotation.as_quat().tobytes() == turn.as_quat().tobytes()
    belief = travelled((2, [Belief(np.zeros((3, 0)), np.array([-np.inf, 0.0, np.nan]))]))
    assert belief[1][0].theta.shape == (3, 0) and np.isnan(belief[1][0].log_weights[2])


@pytest.mark.parametrize(
    'text',
    [
        '{"array": ["<f8", [2], "AAAA"]}',
        '{"array": ["<f8", [1], "no base64!"]}',
        '{"array": ["O", [1], "AAAAAAAAAAA="]}',
        '{"tuple": ["os.system", 1]}',
        '{"tuple": ["Belief", 1]}',
        '{"rotation": [1]}',
        '{"code": "import os"}',
        '{"a": 1, "b": 2}',
    ],
)
def test_what_was_never_encoded_is_said(text):
    with pytest.raises(ReplayError, match='invalid value'):
        snapshot.decode(json.loads(text))


class Thing(Journaled):
    MEMORY = ('rng', 'queue', 'inner')

    def __init__(self, seed):
        self.rng, self.queue = np.random.default_rng(seed), deque([seed], maxlen=2)
        self.inner = HoldTimer()

    @journaled('draw')
    def draw(self, count):
        return self.rng.normal(size=count)


def test_another_thing_goes_on_as_the_first():
    one, other = Thing(1), Thing(2)
    one.draw(7)
    one.inner.update(True, 3.0, 1.0)
    snapshot.restore(other, json.loads(json.dumps(snapshot.dump(one))))
    assert np.array_equal(one.draw(100), other.draw(100))
    assert list(other.queue) == [1] and other.queue.maxlen == 2
    assert other.inner.update(True, 4.0, 1.0)  # since 3 s
    with pytest.raises(ReplayError, match='Thing of another version: it contains rng, q'):
        snapshot.restore(other, {'rng': 1, 'q': 2})


def test_nothing_is_taken_down_while_nobody_listens():
    journal = Journal(Thing(1))
    journal.begin_cycle(0, 0.0)
    assert len(journal.session.draw(3)) == 3
    assert journal.take() == '' and not journal.pending
    journal.begin_cycle(1, 1.0)
    journal.session.draw(2)
    first = json.loads(journal.take())
    assert [event[0] for event in first['events']] == ['key', 'draw'] and first['sequence'] == 0
    journal.begin_cycle(1, 2.0)
    journal.session.draw(count=1)
    assert json.loads(journal.take()) == {'sequence': 1, 'events': [['draw', 1]]}
    journal.begin_cycle(2, 3.0)  # one more listens, who has not heard the key
    assert journal.pending == 1
    journal.begin_cycle(0, 4.0)
    assert journal.take() == ''
