"""
Launch planner, belief, bridge and markers, with a simulated or a real robot.

All arguments are checked before any node starts, because a launch that fails later leaves the
nodes running. A node that the robot needs and that ends shuts the launch down.
"""

from pathlib import Path
import sys

from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.events.process import ProcessExited
from launch.substitutions import (
    Command,
    LaunchConfiguration,
    PathJoinSubstitution,
    SubstitutionFailure,
)
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import ExecutableInPackage, FindPackageShare

from emppi_ros.core.errors import ConfigError
from emppi_ros.nodes.common import graph, interfaces, launch_arguments
from emppi_ros.tracking.camera_messages import IMAGE, INFO
from launch import LaunchContext, LaunchDescription

ARGUMENTS = {
    'task': ('', "name of a task in config/tasks, or path of a YAML file; params_file's if empty"),
    'robot': ('', "name or path of a robot, in place of the task's own"),
    'prior': ('', "prior in config/priors, or path; the task's own if empty"),
    'save_belief': (
        '',
        'file to save the belief to, on request and at the end',
    ),
    'simulate': ('true', 'simulate robot and tracker; false if they are real'),
    'tracking': (
        'truth',
        'where poses of objects come from: truth, the simulator or your tracker; or depth, the '
        'node tracker, from images of a depth camera, simulated or real',
    ),
    'depth_image': ('depth/image', 'topic of the depth images, with tracking:=depth'),
    'camera_info': ('depth/camera_info', 'topic of their intrinsics'),
    'articulation': (
        'false',
        'infer the joints of tracked objects while they move, and write them to the file prior, '
        'which must be a path',
    ),
    'backend': ('', "how the bridge talks to the robot; the robot's own if empty"),
    'params_file': (
        PathJoinSubstitution([FindPackageShare(graph.PACKAGE), 'config', 'nodes.yaml']),
        'parameters of the nodes',
    ),
    'namespace': ('', 'namespace of all nodes'),
    'seed': ('', "random seed; params_file's if empty"),
    'description': ('', 'URDF or xacro file for robot_state_publisher; not started if empty'),
    'description_args': ('', 'for xacro, such as "arm_id:=panda hand:=true"'),
    'joint_states': ('joint_states', "for robot_state_publisher: the topic in the robot's YAML"),
    'rviz': ('false', 'start rviz2'),
    'respawn': ('false', 'restart nodes that end, the bridge disarmed; else all nodes end'),
    'use_sim_time': (
        'false',
        'follow /clock, which the simulator publishes, or another one with simulate:=false',
    ),
    'real_time_factor': ('1.0', 'simulated seconds per second, with use_sim_time'),
    'hardware': (
        '',
        'whether the robot is real; false with simulate:=false for another simulator',
    ),
    'log_level': ('info', 'log level of all nodes'),
}
_RESPAWN_S = 2.0  # between the end of a node and its restart


def generate_launch_description() -> LaunchDescription:
    """Return the graph that `emppi_ros.nodes.common.graph` describes."""
    arguments = [
        DeclareLaunchArgument(name, default_value=default, description=text)
        for name, (default, text) in ARGUMENTS.items()
    ]
    return LaunchDescription([*arguments, OpaqueFunction(function=_start)])


def _start(context: LaunchContext) -> list[Node]:
    """Check all arguments and executables; then return the nodes."""
    if Path(__file__).name in {Path(text).name for text in sys.argv}:  # not included by another
        launch_arguments.check_names(context.argv, ARGUMENTS)
    values = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    frame = launch_arguments.check(values).robot.frame
    nodes = [*_our_nodes(values), *_display_nodes(values, frame, context)]
    for package, executable in [(node.node_package, node.node_executable) for node in nodes]:
        ExecutableInPackage(executable=executable, package=package).perform(context)
    return nodes


def _our_nodes(values: dict[str, str]) -> list[Node]:
    simulate = launch_arguments.flag('simulate', values['simulate'])
    respawn = launch_arguments.flag('respawn', values['respawn'])
    optional = [graph.MARKERS, *([graph.TASK_SERVER] if interfaces.AVAILABLE else [])]
    if launch_arguments.flag('articulation', values['articulation']):
        optional.append(graph.articulation(values['prior']))
    specs = graph.describe(
        task=values['task'],
        robot=values['robot'],
        seed=int(values['seed']) if values['seed'] else '',
        backend=values['backend'],
        prior=values['prior'],
        save_to=values['save_belief'],
        hardware=launch_arguments.is_hardware(values),
        real_time_factor=float(values['real_time_factor']),
        tracking=values['tracking'],
    )
    return [
        Node(
            package=graph.PACKAGE,
            executable=f'emppi_{spec.name}',
            name=spec.name,
            namespace=values['namespace'],
            parameters=[values['params_file'], {**_given(spec), **_use_sim_time(values)}],
            arguments=[
                *('--ros-args', '--log-level', values['log_level']),
                *('--enclave', f'/emppi/{spec.name}'),  # for SROS 2; of no effect without it
            ],
            remappings=[(IMAGE, values['depth_image']), (INFO, values['camera_info'])],
            respawn=respawn,
            respawn_delay=_RESPAWN_S,
            on_exit=None if respawn or spec in optional else _end_launch,
            output='screen',
        )
        for spec in [*specs, *optional]
        if simulate or not spec.simulated_only
    ]


def _given(spec: graph.NodeSpec) -> dict[str, object]:
    """Return the parameters that are given; the others are those of the parameter file."""
    return {
        name: ParameterValue(value, value_type=str) if isinstance(value, str) else value
        for name, value in spec.parameters.items()
        if value != ''
    }


def _use_sim_time(values: dict[str, str]) -> dict[str, bool]:
    return {'use_sim_time': launch_arguments.flag('use_sim_time', values['use_sim_time'])}


def _end_launch(event: ProcessExited, context: LaunchContext) -> None:
    """Shut down with a non-zero exit code, which only an exception does."""
    if not context.is_shutdown:
        name = event.action.node_name
        raise RuntimeError(f'{name} ended with exit code {event.returncode}: shutting down')


def _display_nodes(values: dict[str, str], frame: str, context: LaunchContext) -> list[Node]:
    """Return rviz2 and robot_state_publisher, as far as they are wanted."""
    nodes = []
    if values['description']:
        xacro = Command(['xacro ', values['description'], ' ', values['description_args']])
        try:
            text = xacro.perform(context)
        except SubstitutionFailure as error:
            raise ConfigError(f'description: {error}') from None
        description = {'robot_description': ParameterValue(text, value_type=str)}
        nodes.append(
            Node(
                package='robot_state_publisher',
                executable='robot_state_publisher',
                namespace=values['namespace'],
                parameters=[{**description, **_use_sim_time(values)}],
                remappings=[('joint_states', values['joint_states'])],
                output='screen',
            )
        )
    if launch_arguments.flag('rviz', values['rviz']):
        layout = [FindPackageShare(graph.PACKAGE), 'config', 'rviz', 'emppi.rviz']
        nodes.append(
            Node(
                package='rviz2',
                executable='rviz2',
                namespace=values['namespace'],
                arguments=['-d', PathJoinSubstitution(layout), '-f', frame],
                parameters=[_use_sim_time(values)],
            )
        )
    return nodes
