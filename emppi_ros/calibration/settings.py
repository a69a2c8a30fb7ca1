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
    """Return the task's own settings, then others; `changes` stays, as the truth is constant."""

    def noise(factor: float) -> dict[str, Any]:
        """Return the standard deviations that are given, times a factor, to six digits."""
        given = {name: getattr(config.likelihood, name) for name in _SDS}
        sds = {name: float(f'{factor * sd:.6g}') for name, sd in given.items() if sd is not None}
        return {'likelihood': sds}

    def particles(factor: int) -> dict[str, Any]:
        return {'particles': min(factor * config.particles, _MOST)}

    scale = 'fixed' if config.likelihood.scale == 'learned' else 'learned'
    tempering = _TEMPERING if config.resampling.tempering is None else None
    text = 'null' if tempering is None else f'{tempering:g}'
    return [
        BeliefSetting(OWN),
        *(BeliefSetting(f'noise x{factor:g}', noise(factor)) for factor in _NOISE),
        BeliefSetting(f'scale: {scale}', {'likelihood': {'scale': scale}}),
        BeliefSetting(f'tempering: {text}', {'resampling': {'tempering': tempering}}),
        *(BeliefSetting(f'particles x{factor}', particles(factor)) for factor in _MORE),
        BeliefSetting('particles x2, noise x2', particles(2) | noise(2.0)),
    ]


def as_keys(setting: BeliefSetting) -> str:
    """Return the changed keys of `belief` as YAML in one line."""
    return yaml_edit.flow(dict(setting.changes)).removeprefix('{').removesuffix('}')
