"""Parts of the section `belief` of a task: likelihood, changes and blocks of parameters."""

from dataclasses import dataclass

from emppi_ros.core.config import between, key, non_negative, one_of, positive
from emppi_ros.core.errors import ConfigError

_LEARNED_DOF = 4.0  # contacts cause outliers far beyond a Gaussian's


@dataclass(frozen=True)
class LikelihoodConfig:
    """Standard deviations of prediction minus measurement; null ignores a quantity."""

    joint_position_sd: float | None = positive(None, doc='rad or m')
    joint_velocity_sd: float | None = positive(None, doc='rad/s or m/s')
    object_position_sd_m: float | None = positive(None, doc='m, per axis')
    object_rotation_sd_rad: float | None = positive(None, doc='rad, per axis')
    dof: float | None = positive(
        None,
        doc="degrees of freedom of Student's t, robust to outliers; null: 4 with a learned scale, "
        'a Gaussian with a fixed one',
    )
    scale: str = one_of(
        'learned',
        'fixed',
        default='learned',
        doc='learned: the standard deviations are a prior, and correlated errors count less',
    )

    def __post_init__(self) -> None:
        """Check that at least one quantity is compared."""
        sds = [name for name in self.__dataclass_fields__ if '_sd' in name]
        if all(getattr(self, name) is None for name in sds):
            raise ConfigError(f'all of {", ".join(sds)} are null: nothing to compare')

    @property
    def learned_dof(self) -> float:
        """Degrees of freedom with a learned scale."""
        return _LEARNED_DOF if self.dof is None else self.dof


@dataclass(frozen=True)
class ChangeConfig:
    """How often and how fast uncertain parameters change."""

    rate_hz: float = non_negative(0.01, doc='mean number of jumps of each parameter per second')
    of: tuple[str, ...] | None = key(None, doc='parameters that change; null: all')
    drift_s: float | None = positive(
        600.0, doc='time in which a parameter drifts by a standard deviation of its prior'
    )
    share: float = between(0.0, 0.5, 0.0625, doc='fraction of the particles that represents jumps')


@dataclass(frozen=True)
class BlockConfig:
    """One entry of `belief: blocks`."""

    parameters: tuple[str, ...] = key(doc='parameters with a common weight')
    by: tuple[str, ...] = key(doc='joints and tracked objects that determine the weight')
