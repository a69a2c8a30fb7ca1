"""Launch planner, belief, bridge and markers, with a simulated or a real robot."""

from launch.actions import DeclareLaunchArgument
from launch.conditions import IfCondition
from launch.substitutions import (
    Command,
    EqualsSubstitution,
    IfElseSubstitution,
    LaunchConfiguration,
    NotEqualsSubstitution,
    NotSubstitution,
    PathJoinSubstitution,
)
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

from emppi_ros.nodes.common import graph
from launch import LaunchDescription

ARGUMENTS = {
    'task': ('panda_push', 'name of a task in config/tasks, or path of a YAML file'),
    'robot': ('', "name or path of a robot, in place of the task's own"),
    'prior': ('', "prior in config/priors, or path; the task's own if empty"),
    'save_belief': (
        '',
        'file to save the belief to, on request and at the end',
    ),
    'simulate': ('true', 'simulate robot and tracker; false if they are real'),
    'backend': ('', "how the bridge talks to the robot; the robot's own if empty"),
    'params_file': (
        PathJoinSubstitution([FindPackageShare(graph.PACKAGE), 'config', 'nodes.yaml']),
        'parameters of the nodes',
    ),
    'namespace': ('', 'namespace of all nodes'),
    'seed': ('0', 'random seed'),
    'description': ('', 'URDF or xacro file for robot_state_publisher; not started if empty'),
    'description_args': ('', 'for xacro, such as "arm_id:=panda hand:=true"'),
    'joint_states': ('joint_states', "for robot_state_publisher: the topic in the robot's YAML"),
    'rviz': ('false', 'start rviz2'),
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


def generate_launch_description() -> LaunchDescription:
    """Return the graph that `emppi_ros.nodes.common.graph` describes."""
    arguments = [
        DeclareLaunchArgument(name, default_value=default, description=text)
        for name, (default, text) in ARGUMENTS.items()
    ]
    values = {name: LaunchConfiguration(name) for name in ARGUMENTS}
    texts = {name: ParameterValue(values[name], value_type=str) for name in ARGUMENTS}
    hardware = IfElseSubstitution(
        EqualsSubstitution(values['hardware'], ''),
        NotSubstitution(values['simulate']),
        values['hardware'],
    )
    use_sim_time = {'use_sim_time': ParameterValue(values['use_sim_time'], value_type=bool)}
    nodes = [
        Node(
            package=graph.PACKAGE,
            executable=spec.executable,
            name=spec.name,
            namespace=values['namespace'],
            parameters=[values['params_file'], {**spec.parameters, **use_sim_time}],
            arguments=[
                *('--ros-args', '--log-level', values['log_level']),
                *('--enclave', f'/emppi/{spec.name}'),  # for SROS 2; of no effect without it
            ],
            condition=IfCondition(values['simulate']) if spec.simulated_only else None,
            output='screen',
        )
        for spec in [
            *graph.describe(
                task=texts['task'],
                robot=texts['robot'],
                seed=ParameterValue(values['seed'], value_type=int),
                backend=texts['backend'],
                prior=texts['prior'],
                save_to=texts['save_belief'],
                hardware=ParameterValue(hardware, value_type=bool),
                real_time_factor=ParameterValue(values['real_time_factor'], value_type=float),
            ),
            graph.MARKERS,
        ]
    ]
    share = FindPackageShare(graph.PACKAGE)
    rviz = Node(
        package='rviz2',
        executable='rviz2',
        namespace=values['namespace'],
        arguments=['-d', PathJoinSubstitution([share, 'config', 'rviz', 'emppi.rviz'])],
        parameters=[use_sim_time],
        condition=IfCondition(values['rviz']),
    )
    xacro = Command(['xacro ', values['description'], ' ', values['description_args']])
    description = Node(
        package='robot_state_publisher',
        executable='robot_state_publisher',
        namespace=values['namespace'],
        parameters=[{'robot_description': ParameterValue(xacro, value_type=str), **use_sim_time}],
        remappings=[('joint_states', values['joint_states'])],
        condition=IfCondition(NotEqualsSubstitution(values['description'], '')),
        output='screen',
    )
    return LaunchDescription([*arguments, *nodes, description, rviz])
