"""Settings of the belief to compare, all on the same measurements."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from emppi_ros.core import yaml_edit
from emppi_ros.tasks.schema import BeliefConfig

OWN = 'as it is'
_SDS = 'joint_position_sd', 'joint_velocity_sd', 'object_position_sd_m', 'object_rotation_sd_rad'
_MORE, _NOISE = (2, 4), (0.5, 2.0, 4.0)  # factors of particles and of standard deviations
_TEMPERING = 0.3
_MOST = 100_000  # particles


@dataclass(frozen=True)
class BeliefSetting:
    """A name, and the keys of `belief` that differ from the task's."""

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)


def alternatives(config: BeliefConfig) -> list[BeliefSetting]:
    """
    Return the task's own settings, then others that differ in one or two ways.

    `changes` is left alone: the truth is constant in these runs, so they cannot tell how
    quickly it may change in others.
    """
    likelihood, tempering = config.likelihood, config.resampling.tempering
    compared = [BeliefSetting(OWN)]
    for factor in _NOISE:
        sds = _scaled(config, factor)
        compared.append(BeliefSetting(f'noise x{factor:g}', {'likelihood': sds}))
    other = 'fixed' if likelihood.scale == 'learned' else 'learned'
    compared.append(BeliefSetting(f'scale: {other}', {'likelihood': {'scale': other}}))
    changed = _TEMPERING if tempering is None else None
    text = 'null' if changed is None else f'{changed:g}'
    compared.append(BeliefSetting(f'tempering: {text}', {'resampling': {'tempering': changed}}))
    for factor in _MORE:
        count = min(factor * config.particles, _MOST)
        compared.append(BeliefSetting(f'particles x{factor}', {'particles': count}))
    both = {'particles': min(2 * config.particles, _MOST), 'likelihood': _scaled(config, 2.0)}
    compared.append(BeliefSetting('particles x2, noise x2', both))
    return compared


def as_keys(setting: BeliefSetting) -> str:
    """Return the changed keys of `belief` as YAML in one line."""
    return yaml_edit.flow(dict(setting.changes)).removeprefix('{').removesuffix('}')


def _scaled(config: BeliefConfig, factor: float) -> dict[str, float]:
    """Return the standard deviations that are given, times a factor, to six digits."""
    given = {name: getattr(config.likelihood, name) for name in _SDS}
    return {name: float(f'{factor * sd:.6g}') for name, sd in given.items() if sd is not None}
