"""The keys of a task's YAML file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import math
from typing import Any

import numpy as np

from emppi_ros.core import config
from emppi_ros.core.config import between, fraction, key, non_negative, one_of, positive
from emppi_ros.core.errors import ConfigError
from emppi_ros.model.parameters import Parameter
from emppi_ros.priors.distributions import Prior
from emppi_ros.priors.resampling import ResamplingConfig
from emppi_ros.tasks.planner_config import PlannerConfig, device

_SMALLEST, _LARGEST = 0.1, 10.0  # factors of size
_LEARNED_DOF = 4.0  # contacts cause outliers far beyond a Gaussian's


@dataclass(frozen=True)
class ParameterConfig:
    """One entry of `parameters`: a model field, its bounds and its prior, in its unit."""

    field: str = key(doc='the field of the MuJoCo model: one of those below')
    prior: Prior = key(doc='prior distribution')
    of: str = key('', doc='name of the body, geom, joint or actuator; not for `command_delay`')
    element: int = key(0, doc='index, for fields with several elements: 0, 1, 2 for x, y, z')
    lower: float | None = key(None, doc='lower bound; null: unbounded')
    upper: float | None = key(None, doc='upper bound; null: unbounded')
    unit: str = key('', doc='shown to users and compared with prior files')
    choices: tuple[tuple[float, ...], ...] = key((), doc='jnt_axis: the candidate axes')

    def parameter(self, name: str) -> Parameter:
        """Return the uncertain parameter of this entry."""
        bounds = {'lower': 0.0, 'upper': float(len(self.choices))} if self.choices else {}
        given = {k: v for k, v in vars(self).items() if k != 'prior' and v is not None}
        return Parameter(name, **{**bounds, **given})


@dataclass(frozen=True)
class TrackedObjectConfig:
    """One entry of `objects`: a body whose pose arrives on `tracking/<name>`."""

    body: str = key(doc='body of the scene whose frame is tracked')
    motion: str = one_of(
        'free',
        'planar',
        'jointed',
        default='free',
        doc='free: a free joint; planar: a free joint, with constant height and tilt; jointed: '
        'one hinge or slide, such as a door',
    )
    position_sd_m: float = positive(0.002, doc='measurement noise, per axis')
    rotation_sd_rad: float = positive(0.0175, doc='measurement noise, per axis')
    acceleration_sd: float = positive(3.0, doc='process noise [m/s^2]')
    angular_acceleration_sd: float = positive(20.0, doc='process noise [rad/s^2]')


@dataclass(frozen=True)
class Condition:
    """The norm of a residual stays below a threshold for some time; a list of them: of each."""

    residual: Mapping[str, Any] = key(doc='a residual, without weights')
    below: float = positive(doc='threshold of its Euclidean norm, in its unit')
    hold_s: float = non_negative(0.0, doc='minimum time below the threshold')
    also: tuple['Condition', ...] = key(
        (), doc='further conditions that hold at the same time; in YAML the rest of a list'
    )

    def __post_init__(self) -> None:
        """Check that the time is that of all conditions."""
        if any(condition.hold_s for condition in self.also):
            raise ConfigError('also: hold_s: give it with the first condition; it holds for all')


@dataclass(frozen=True)
class StageConfig:
    """A part of a task with its own cost, until a condition holds."""

    name: str = key(doc='as published on emppi/stage')
    cost: Mapping[str, Any] = key(doc='name -> weighted residual')
    until: Condition | None = key(None, doc='when the next stage begins; not in the last stage')
    grasp: tuple[str, ...] = key((), doc='active equality constraints of the scene')
    back_above: float | None = positive(
        None, doc='return to the previous stage when the residual of its `until` exceeds this'
    )
    residual_rad_per_s: float | None = positive(
        None,
        doc="what the bridge's monitor `residual` tolerates in this stage, if more than its "
        'parameter of this name: what is held drags the arm',
    )


@dataclass(frozen=True)
class LossCondition:
    """The object is lost: the norm of a residual exceeds a threshold."""

    residual: Mapping[str, Any] = key(doc='a residual, without weights')
    above: float = positive(doc='threshold of its Euclidean norm, in its unit')


@dataclass(frozen=True)
class TargetsConfig:
    """A sequence of random target orientations."""

    body: str = key(doc='body that shows the target; it becomes a mocap body')
    attempt_s: float = positive(doc='time limit per target')
    turn_rad: float = between(0.0, np.pi, np.pi, doc='largest rotation from the previous target')
    least_turn_rad: float = between(0.0, np.pi, 0.0, doc='smallest rotation from it')
    lost: LossCondition | None = key(None, doc='when to reset the scene')

    def __post_init__(self) -> None:
        """Check that the range of rotations is not empty."""
        if self.least_turn_rad > self.turn_rad:
            raise ConfigError(
                f'least_turn_rad: {self.least_turn_rad:g} rad exceeds turn_rad, {self.turn_rad:g}'
            )


@dataclass(frozen=True)
class ProbeConfig:
    """
    How `emppi run --probe` gathers information before the task.

    A term of `cost` with a `deadzone` and a large weight bounds the region to stay in.
    """

    information_weight: float = positive(0.1, doc='that of `planner`, while probing')
    cost: Mapping[str, Any] = key(
        {}, doc="name -> weighted residual, while probing; default: the task's"
    )


@dataclass(frozen=True)
class ViewConfig:
    """Camera of images and videos, in scenes without a camera `overview`."""

    body: str = key(doc='body that the camera follows')
    distance_m: float = positive(doc='from the camera to the body')
    azimuth_deg: float = between(-360.0, 360.0, 90.0, doc='0 looks along x, 90 along y')
    elevation_deg: float = between(-90.0, 90.0, -20.0, doc='-90 looks down')


@dataclass(frozen=True)
class CalibrationConfig:
    """What `emppi calibrate --write` measured: whether the intervals of the belief are right."""

    digest: str = key(doc='of the task, robot, scene and prior that were calibrated')
    runs: int = between(1, 1_000_000, doc='simulated runs with true values from the prior')
    inside_90: tuple[float, ...] = key(
        doc='share of the time in which 90 % intervals held the truth, and its 95 % interval'
    )
    rms_z: float = non_negative(doc='root mean square of (truth - mean) / sd')

    def __post_init__(self) -> None:
        """Check the share and its interval."""
        if len(self.inside_90) != 3 or not all(0.0 <= x <= 1.0 for x in self.inside_90):
            raise ConfigError('inside_90: expected a share and its interval: [0.9, 0.8, 0.96]')


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
        100_000.0, doc='time in which a parameter drifts by a standard deviation of its prior'
    )
    share: float = between(0.0, 0.5, 0.0625, doc='fraction of the particles that represents jumps')


@dataclass(frozen=True)
class BlockConfig:
    """One entry of `belief: blocks`."""

    parameters: tuple[str, ...] = key(doc='parameters with a common weight')
    by: tuple[str, ...] = key(doc='joints and tracked objects that determine the weight')


@dataclass(frozen=True)
class BeliefConfig:
    """Settings of the particle filter."""

    particles: int = between(1, 100_000, doc='number of particles')
    likelihood: LikelihoodConfig = key(doc='expected prediction errors')
    resampling: ResamplingConfig = key(ResamplingConfig(), doc='when and how to resample')
    changes: ChangeConfig | None = key(
        ChangeConfig(), doc='how parameters change over time; none: they are constant'
    )
    blocks: tuple[BlockConfig, ...] = key((), doc='groups of parameters with separate weights')
    substep_s: float = between(
        1e-5,
        1.0,
        0.002,
        doc="physics step of predictions; smaller than the planner's, for accuracy",
    )
    fine_substep_s: float | None = positive(
        None,
        doc='physics step of one more prediction, whose joints correct those of all particles; '
        'null: none',
    )
    object_gain: float = fraction(
        0.2, doc='gain by which particles correct their object pose to each measured one'
    )
    joint_gain: float = fraction(
        1.0,
        doc='gain by which particles correct their joints to the measured ones; below 1 where the '
        'noise of measured joints is not small compared with their motion',
    )
    window: int = between(
        1,
        100,
        4,
        doc='updates whose errors are summed before they are compared: noise of poses shifts '
        'contacts in time; 1 follows changes faster, for tasks without contacts',
    )
    interval_s: float = between(
        1e-3,
        10.0,
        0.02,
        doc='time between updates if no object is tracked; otherwise each pose is an update',
    )
    device: str = device('predictions')


def _noise(default: float, doc: str) -> Any:
    return non_negative(default, doc=f'standard deviation {doc}')


@dataclass(frozen=True)
class ParameterChange:
    """A change of a hidden true value: a step, or a linear ramp."""

    parameter: str = key(doc='name of the parameter')
    at_s: float = non_negative(doc='simulated time at which it starts')
    to: float = key(doc='new value, within the bounds of the parameter')
    over_s: float = non_negative(0.0, doc='duration of a linear ramp to it; 0: a step')


def check_order(changes: Sequence[ParameterChange]) -> None:
    """Raise ConfigError unless the changes of each parameter follow one another."""
    last: dict[str, ParameterChange] = {}
    for i, change in enumerate(changes):
        before = last.get(change.parameter)
        if before is not None:
            end = before.at_s + before.over_s
            if change.at_s < end or change.at_s == before.at_s:
                raise ConfigError(
                    f'changes[{i}]: at_s: found {change.at_s:g}, expected a later time than that '
                    f'of the previous change of {change.parameter!r}, which ends at {end:g} s'
                )
        last[change.parameter] = change


def _range(unit: str) -> Any:
    return key(
        (0.0, 0.0),
        check=lambda value: len(value) == 2 and value[0] <= value[1],
        allowed='two numbers, the smaller first',
        doc=f'lowest and highest difference [{unit}]',
    )


@dataclass(frozen=True)
class ConditionalChange:
    """A change of a hidden true value when a condition holds, such as a grasp."""

    parameter: str = key(doc='name of the parameter')
    when: Condition = key(doc='when it starts, once; the one before it in the list comes first')
    to: Prior = key(doc='distribution of the new value')
    over_s: float = non_negative(0.0, doc='duration of a linear ramp to it; 0: a step')


@dataclass(frozen=True)
class StartConfig:
    """Where an object starts, beside its place in the scene; free objects turn about vertical."""

    x: tuple[float, ...] = _range('m')
    y: tuple[float, ...] = _range('m')
    yaw: tuple[float, ...] = _range('rad')
    joint: tuple[float, ...] = _range('rad or m, of a jointed object')


@dataclass(frozen=True)
class DepthCameraConfig:
    """Section `depth_camera`: the simulated depth camera."""

    width: int = between(16, 1920, 320, doc='columns of the image')
    height: int = between(16, 1080, 240, doc='rows of the image')
    rate_hz: float = positive(25.0, doc='images per second')
    camera: str = key(
        '', doc='camera of the scene that it is at; default: where videos are taken from'
    )
    position: tuple[float, ...] | None = config.position(
        doc='position in the world [m], in place of `camera`'
    )
    quaternion: tuple[float, ...] | None = config.quaternion(
        doc='orientation of its optical frame: x right, y down, z ahead'
    )
    fovy_deg: float = between(1.0, 170.0, 42.0, doc='vertical field of view, with `position`')
    baseline_m: float = positive(0.075, doc='distance of the two images that are matched')
    focal_px: float = positive(580.0, doc='focal length of the images that are matched')
    disparity_sd_px: float = non_negative(
        0.15, doc='noise of disparities: depths have 9 mm at 1.6 m, growing with the square'
    )
    disparity_step_px: float = non_negative(0.125, doc='step to which they are rounded')
    edge_dropout: float = between(
        0.0, 1.0, 0.3, doc='share of pixels without depth beside a jump of depth'
    )
    dropout: float = between(0.0, 1.0, 0.01, doc='share of single pixels without depth')
    holes: float = non_negative(2.0, doc='mean number of holes in an image')
    hole_radius_px: float = positive(4.0, doc='mean radius of holes')
    farthest_m: float = positive(6.0, doc='depth beyond which nothing is measured')

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


@dataclass(frozen=True)
class SimulationConfig:
    """Settings of the simulator, which planner and belief do not know: truth and sensors."""

    truth: Mapping[str, Any] = key(doc='parameter -> distribution of its hidden true value')
    wrong: Mapping[str, float] = key(
        {}, doc="values of the wrong model; default: the prior's mean"
    )
    changes: tuple[ParameterChange, ...] = key((), doc='changes of true values')
    changes_when: tuple[ConditionalChange, ...] = key(
        (), doc='changes of true values that wait for a condition, one after the other'
    )
    timestep_s: float = between(1e-5, 1.0, 0.001, doc='physics step of the simulator')
    joint_position_noise_sd: float = _noise(1e-4, 'of joint positions, rad or m')
    joint_velocity_noise_sd: float = _noise(1e-3, 'of joint velocities, rad/s or m/s')
    joint_effort_noise_sd: float = _noise(0.05, 'of joint efforts, N m or N')
    position_noise_sd_m: float = _noise(0.002, 'of tracked positions, per axis')
    rotation_noise_sd_rad: float = _noise(0.0175, 'of tracked rotations, per axis')
    tracking_rate_hz: float = between(0.1, 10_000.0, 50.0, doc='poses per second')
    tracking_delay_s: float = between(0.0, 10.0, 0.03, doc='latency of tracked poses')
    tracking_dropout: float = between(0.0, 1.0, 0.0, doc='probability that a tracked pose is lost')
    joint_state_rate_hz: float = between(1.0, 10_000.0, 250.0, doc='joint states per second')
    engine: str = one_of(
        'mujoco', 'drake', default='mujoco', doc='physics engine; Drake is the extra `drake`'
    )
    command_delay_s: float = between(
        0.0, 1.0, 0.0, doc='time from a command to its effect, in addition to that of a parameter'
    )
    joint_friction: Mapping[str, float] = key(
        {},
        check=lambda value: all(friction >= 0 for friction in value.values()),
        allowed='a non-negative number for each joint',
        doc='commanded joint -> dry friction in addition to that of the scene, N m or N',
    )
    gravity_tilt_rad: float = between(
        -np.pi / 2,
        np.pi / 2,
        0.0,
        doc='angle by which gravity is turned, as if the scene sloped down along x',
    )
    depth_camera: DepthCameraConfig = key(
        DepthCameraConfig(), doc='depth camera of `emppi run --depth`, and of the node'
    )
    sizes: Mapping[str, float] = key(
        {},
        check=lambda value: all(_SMALLEST <= number <= _LARGEST for number in value.values()),
        allowed=f'a factor from {_SMALLEST:g} to {_LARGEST:g} for each object',
        doc='factors of the size of free objects made of primitive geoms; their mass stays',
    )
    starts: Mapping[str, StartConfig] = key(
        {}, doc='object -> ranges of its start; a run draws from them by its seed'
    )
    residual_monitor: bool | None = key(
        None,
        doc='whether `emppi run` stops an arm that does not follow its commands; false if its '
        'simulated servos yield to what it pushes; default: true unless it is commanded by '
        'position',
    )

    def __post_init__(self) -> None:
        """Check that changes follow one another."""
        check_order(self.changes)
        timed = {change.parameter for change in self.changes}
        for i, change in enumerate(self.changes_when):
            if change.parameter in timed:
                raise ConfigError(
                    f'changes_when[{i}]: parameter: {change.parameter!r} is in `changes`, too; '
                    'expected either times or conditions'
                )


@dataclass(frozen=True)
class TaskFile:
    """The keys of a task's YAML file."""

    name: str = key(doc='shown to users and used in file names')
    scene: str = key(
        doc='MJCF file: beside this file, in the assets of this package, or package://NAME/FILE'
    )
    robot: str = key(doc='name in config/robots, or a path')
    success: Condition = key(doc='when the task is solved')
    planner: PlannerConfig = key(doc='ensemble, horizon and control noise')
    belief: BeliefConfig = key(doc='the particle filter')
    simulation: SimulationConfig = key(doc='the simulator: true parameters and sensors')
    cost: Mapping[str, Any] = key({}, doc='name -> weighted residual')
    stages: tuple[StageConfig, ...] = key((), doc='a sequence of costs, in place of `cost`')
    targets: TargetsConfig | None = key(None, doc='random target orientations')
    parameters: Mapping[str, Any] = key({}, doc='name -> uncertain parameter')
    objects: Mapping[str, Any] = key({}, doc='name -> tracked object')
    prior: str = key(
        '', doc='prior file in place of the priors of `parameters`: a name, or a path'
    )
    description: str = key('', doc='one sentence, shown by `emppi tasks`')
    probe: ProbeConfig = key(ProbeConfig(), doc='what `emppi run --probe` does')
    view: ViewConfig | None = key(None, doc='camera, in place of `overview` in the scene')
    scene_root: str = key(
        '', doc='folder, from this file, that holds meshes beside the folder of the scene'
    )
    scene_without: tuple[str, ...] = key((), doc='bodies of the scene to remove')
    scene_without_gravcomp: tuple[str, ...] = key(
        (), doc="bodies of the scene whose weight the robot's controller does not hold"
    )
    joint_position_gain: float = fraction(
        1.0, doc='weight of measured joint positions against integrated velocities'
    )
    real_time: bool = key(True, doc='false: too slow to plan in real time on two cores')
    duration_s: float = between(0.01, 1e6, 15.0, doc='time limit')
    calibration: CalibrationConfig | None = key(
        None, doc='result of `emppi calibrate --write`; outdated after any change of the task'
    )

    def __post_init__(self) -> None:
        """Check that there is one cost, or stages that follow one another."""
        if bool(self.cost) == bool(self.stages):
            raise ConfigError('expected either cost or stages')
        for i, stage in enumerate(self.stages):
            last = i == len(self.stages) - 1
            if last != (stage.until is None):
                never = 'missing: the next stage would never begin'
                reason = 'the last stage has none' if last else never
                raise ConfigError(f'stages: {stage.name}: until: {reason}')
            if i == 0 and stage.back_above is not None:
                raise ConfigError(f'stages: {stage.name}: back_above: the first stage has none')
        if len({stage.name for stage in self.stages}) < len(self.stages):
            raise ConfigError('stages: two have the same name')
