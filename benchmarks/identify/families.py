"""The families of cells of `emppi bench identify`; a new family is a module and a line here."""

from collections.abc import Mapping

from benchmarks.identify import computed_torque, regression
from benchmarks.identify.cells import Family

FAMILIES: Mapping[str, Family] = {
    'regression': regression.FAMILY,
    'computed-torque': computed_torque.FAMILY,
}
