"""Values are set in YAML texts without touching anything else."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest
import yaml

from emppi_ros.core import yaml_edit, yaml_loader
from emppi_ros.core.errors import ConfigError

TEXT = """\
# of the lab, not of the arm
name: lever          # short
belief:
  particles: 32      # enough for one parameter
  likelihood:
    object_position_sd_m: 0.004   # of the tracker
  resampling: {tempering: 0.3, shrinkage: 0.9}   # as before

  # nothing else
simulation: {truth: {}}
"""
NAMES = st.sampled_from(('a', 'b', 'c'))
SCALARS = st.none() | st.integers(-9, 9) | st.floats(-1e6, 1e6) | st.sampled_from(('x', 'y: z'))
TREES = st.recursive(
    SCALARS, lambda inner: st.dictionaries(NAMES, inner, min_size=1), max_leaves=8
)
MAPPINGS = st.dictionaries(NAMES, TREES, min_size=1)


def set_in(text: str, **belief: Any) -> str:
    return yaml_edit.set_values(text, {'belief': belief}, 'lever.yaml')


def test_only_the_line_of_a_replaced_value_changes() -> None:
    after = set_in(TEXT, particles=64).splitlines()
    different = [pair for pair in zip(TEXT.splitlines(), after, strict=True) if pair[0] != pair[1]]
    line = '  particles: 32      # enough for one parameter'
    assert different == [(line, line.replace('32', '64'))]


def test_a_new_key_is_added_at_the_end_of_its_mapping_and_comments_stay() -> None:
    after = set_in(
        TEXT, likelihood={'scale': 'fixed'}, resampling={'tempering': None, 'walk_sd': 1e-5}
    )
    assert [line for line in TEXT.splitlines() if line not in after.splitlines()] == [
        '  resampling: {tempering: 0.3, shrinkage: 0.9}   # as before'
    ]
    assert '    object_position_sd_m: 0.004   # of the tracker\n    scale: fixed\n' in after
    assert '{tempering: null, shrinkage: 0.9, walk_sd: 1.0e-05}   # as before' in after


def test_a_missing_mapping_is_added() -> None:
    assert set_in('name: lever  # short', particles=2) == (
        'name: lever  # short\nbelief: {particles: 2}'
    )
    assert set_in('belief:\n', particles=2) == 'belief: {particles: 2}\n'
    assert set_in('belief: {}', particles=2) == 'belief: {particles: 2}'


@given(MAPPINGS, MAPPINGS, st.booleans())
def test_the_result_parses_to_the_merged_values(
    data: dict[str, Any], changes: dict[str, Any], flow: bool
) -> None:
    text = yaml.safe_dump(data, default_flow_style=flow, sort_keys=False)
    before = copy.deepcopy(data)
    try:
        after = yaml_edit.set_values(text, changes, 'file')
    except ConfigError:  # never a wrong text
        assert not flow
        return
    assert yaml_loader.parse(after, 'file') == yaml_edit.merged(data, changes)
    assert data == before


def test_what_cannot_be_set_is_an_error_that_names_file_and_key() -> None:
    with pytest.raises(ConfigError, match=r'lever\.yaml: belief: particles: cannot be set'):
        set_in('belief:\n  particles:\n    - 1\n    - 2\n# end\nname: x\n', particles=3)
