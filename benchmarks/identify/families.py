"""The families of cells of `emppi bench identify`; a new family is a module and a line here."""

from collections.abc import Mapping

from benchmarks.identify import computed_torque, friction_models, furuta, regression
from benchmarks.identify.cells import Family

FAMILIES: Mapping[str, Family] = {
    'regression': regression.FAMILY,
    'computed-torque': computed_torque.FAMILY,
    'friction-models': friction_models.FAMILY,
    'furuta': furuta.FAMILY,
    'furuta-weight': furuta.WEIGHT_FAMILY,
}
