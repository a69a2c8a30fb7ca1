"""Errors contain the name of their recording exactly once."""

import pytest

from emppi_ros.core.errors import IdentificationError
from emppi_ros.recordings.recordings import named_errors


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('too short', 'a.csv: too short'),
        ('/tmp/a.csv: line 3: too short', '/tmp/a.csv: line 3: too short'),
        ('/tmp/data.csv: too short', 'a.csv: /tmp/data.csv: too short'),
    ],
)
def test_errors_contain_the_name_once(text, expected):
    with pytest.raises(IdentificationError) as caught, named_errors('a.csv'):
        raise IdentificationError(text)
    assert str(caught.value) == expected


def test_an_empty_name_is_not_added():
    with pytest.raises(IdentificationError, match=r'^too short$'), named_errors(''):
        raise IdentificationError('too short')
