"""Errors have the name of the recording that they are about, once."""

import pytest

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common.recordings import named_errors


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('too short', 'a.csv: too short'),
        ('/tmp/a.csv: line 3: too short', '/tmp/a.csv: line 3: too short'),
        ('/tmp/data.csv: too short', 'a.csv: /tmp/data.csv: too short'),
    ],
)
def test_errors_are_named_once(text, expected):
    with pytest.raises(IdentificationError) as caught, named_errors('a.csv'):
        raise IdentificationError(text)
    assert str(caught.value) == expected


def test_what_has_no_name_is_not_named():
    with pytest.raises(IdentificationError, match=r'^too short$'), named_errors(''):
        raise IdentificationError('too short')
