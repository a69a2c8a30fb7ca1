"""Section `depth_camera` of a task."""

from dataclasses import dataclass
import math

from emppi_ros.core import config
from emppi_ros.core.errors import ConfigError

_LENGTH_TOLERANCE = 0.01  # of quaternions


@dataclass(frozen=True)
class DepthCameraConfig:
    """Section `depth_camera`: the simulated depth camera."""

    width: int = config.between(16, 1920, 320, doc='columns of the image')
    height: int = config.between(16, 1080, 240, doc='rows of the image')
    rate_hz: float = config.positive(25.0, doc='images per second')
    camera: str = config.key(
        '', doc='camera of the scene that it is at; default: where videos are taken from'
    )
    position: tuple[float, ...] | None = config.key(
        None,
        check=lambda value: len(value) == 3,
        allowed='3 numbers',
        doc='position in the world [m], in place of `camera`',
    )
    quaternion: tuple[float, ...] | None = config.key(
        None,
        check=lambda value: len(value) == 4 and abs(math.hypot(*value) - 1.0) < _LENGTH_TOLERANCE,
        allowed='a unit quaternion w, x, y, z',
        doc='orientation of its optical frame: x right, y down, z ahead',
    )
    fovy_deg: float = config.between(
        1.0, 170.0, 42.0, doc='vertical field of view, with `position`'
    )
    baseline_m: float = config.positive(0.075, doc='distance of the two images that are matched')
    focal_px: float = config.positive(580.0, doc='focal length of the images that are matched')
    disparity_sd_px: float = config.non_negative(
        0.15, doc='noise of disparities: depths have 9 mm at 1.6 m, growing with the square'
    )
    disparity_step_px: float = config.non_negative(0.125, doc='step to which they are rounded')
    edge_dropout: float = config.between(
        0.0, 1.0, 0.3, doc='share of pixels without depth beside a jump of depth'
    )
    dropout: float = config.between(0.0, 1.0, 0.01, doc='share of single pixels without depth')
    holes: float = config.non_negative(2.0, doc='mean number of holes in an image')
    hole_radius_px: float = config.positive(4.0, doc='mean radius of holes')
    farthest_m: float = config.positive(6.0, doc='depth beyond which nothing is measured')

    def __post_init__(self) -> None:
        """Raise ConfigError unless its pose is given in one way."""
        if (self.position is None) != (self.quaternion is None):
            raise ConfigError('position, quaternion: expected both or none')
        if self.camera and self.position is not None:
            raise ConfigError('camera, position: expected one of them')

    @property
    def noise_sd_per_m(self) -> float:
        """Standard deviation of a depth over its square [1/m]."""
        variance = self.disparity_sd_px**2 + self.disparity_step_px**2 / 12.0
        return math.sqrt(variance) / (self.baseline_m * self.focal_px)
