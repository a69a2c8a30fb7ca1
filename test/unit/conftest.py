"""A file with a prior of the slider's mass."""

import pytest

from emppi_ros.priors import prior_file
from emppi_ros.priors.prior_file import ParameterPrior, PriorFile


@pytest.fixture
def prior_path(tmp_path):
    """Return the path of a prior file with two masses, 1.25 and 2.5, weighted 3 to 1."""
    path = tmp_path / 'prior.yaml'
    values = ParameterPrior('kg', values=(1.25, 2.5))
    prior_file.write(path, PriorFile('test', (), {'mass': values}, (3.0, 1.0)))
    return str(path)
