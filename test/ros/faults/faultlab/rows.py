"""The fault matrix: what may go wrong, what is required then, and which tests show it."""

from typing import NamedTuple

BRIDGE, CAMPAIGN = 'test/ros/test_bridge.py::', 'test/ros/faults/test_campaign.py::'
ROS, PURE = 'test/ros/faults/', 'test/unit/bridge/'
FRANKA, FUZZ = 'test/conformance/test_franky_backend.py::', 'test/fuzz/'
# What S stands for in `required`.
SAFE_STOP = (
    'onset at most 110 ms after the start of the last valid plan; zero at most 220 ms after it at '
    'up to 0.5 rad/s; |a| within half, |jerk| within a fifth of the published limits; no joint '
    'turns back; held with a reason until an operator acknowledges it'
)


class Row(NamedTuple):
    """One line of the matrix."""

    number: str
    fault: str
    required: str
    tests: tuple[str, ...] = ()  # beginnings of test ids
    not_run: str = ''  # what of it cannot run here, and why


ROWS = (
    Row(
        'P1',
        'planner SIGKILL at a random phase',
        'S',
        (f'{CAMPAIGN}test_fault[p1',),
    ),
    Row(
        'P2',
        'planner SIGSTOP 50, 150, 500 ms, then CONT',
        '50 ms: no stop; else S; motion only after arming again',
        (
            f'{CAMPAIGN}test_fault[p2',
            f'{CAMPAIGN}test_p2',
            f'{ROS}test_bridge_rows.py::test_p2',
        ),
    ),
    Row(
        'P3',
        'exception in cost or rollout',
        'no plan, an error in diagnostics; the node keeps running; S',
        (
            f'{ROS}test_planner_rows.py::test_p3',
            'test/ros/test_planner.py::test_all_diverged_is_said_and_the_next_cycle_tries_again',
        ),
    ),
    Row(
        'P4',
        'plans late, or none',
        'late plans are bridged, then S',
        (
            f'{CAMPAIGN}test_fault[p4',
            f'{PURE}test_commander.py::test_motion_resumes_after_a_late_plan',
            f'{PURE}test_commander.py::test_too_many_late_plans_are_a_fault',
        ),
    ),
    Row(
        'P5',
        'NaN, Inf, 1e308, denormals in a plan',
        'the plan is rejected as a whole; S',
        (
            f'{CAMPAIGN}test_fault[p5',
            'test/unit/robots/test_plan.py::test_a_bad_plan_is_an_error_that_says_why',
            f'{FUZZ}test_messages.py',
        ),
    ),
    Row(
        'P6',
        'plan beyond velocity, acceleration, jerk, envelope or position',
        'clamped in its direction, or rejected; commands stay within limits',
        (
            f'{PURE}test_oracle.py::test_no_target_exceeds_a_limit_and_braking_never_reverses',
            f'{PURE}test_oracle.py::test_a_target_beyond_limits_is_followed_in_its_direction',
            'test/conformance/test_limiter_parity.py',
        ),
    ),
    Row(
        'P7',
        'all rollouts diverge',
        'reported; no plan; S',
        (
            'test/unit/planning/test_planner.py::test_a_state_that_diverges_everywhere_is_an_error',
            'test/ros/test_planner.py::test_all_diverged_is_said_and_the_next_cycle_tries_again',
        ),
    ),
    Row(
        'P8',
        'belief collapses, has NaN weights, or is dead',
        'the last valid belief stays, with particles left; a dead node: S after at most 1 s',
        (
            'test/ros/test_planner.py::test_a_belief_about_other_parameters_is_rejected',
            'test/ros/test_planner.py::test_from_a_belief_that_nobody_holds_any_more',
            'test/unit/priors/test_particles.py::test_an_update_that_leaves_nobody_or_is_no',
            'test/unit/belief/test_particle_filter.py::test_half_of_the_particles',
        ),
        'slower motion in that second: the planner continues at full speed',
    ),
    Row(
        'P9',
        'wrong model: payload, friction, names, joints, actuators',
        'refused when configured, or S by the residual monitor',
        (
            'test/unit/robots/test_robot.py::test_a_scene_that_does_not_fit_the_robot_is_an_error',
            'test/unit/robots/test_franka_limits.py::test_the_panda_s_table_on_an_fr3_is_refused',
            f'{PURE}test_monitors.py::test_a_blocked_or_runaway_arm_is_detected',
            'test/unit/robots/test_urdf_check.py',
        ),
    ),
    Row(
        'P10',
        'the same seed and inputs again',
        'the same commands, bit for bit',
        (
            'test/unit/planning/test_planner.py::test_the_same_seed_and_inputs_give_the_same_bits',
            'test/unit/app/test_closed_loop.py::test_one_seed_gives_the_same_bits',
        ),
    ),
    Row(
        'B1',
        'bridge SIGKILL, ros2_control path',
        'the tail ends at zero: at rest within 200 ms of the last trajectory, and a stop',
        (
            f'{ROS}test_bridge_rows.py::test_b1',
            'test/ros/test_backends.py::test_the_bridge_is_killed_in_motion',
        ),
        'a real joint_trajectory_controller: its rule is re-implemented in the oracle',
    ),
    Row(
        'B2',
        'bridge SIGKILL or SIGSTOP, direct FCI',
        'communication error and nothing else; at rest within 1 s',
        (f'{FRANKA}test_a_killed_process', f'{FRANKA}test_a_stopped_process'),
    ),
    Row(
        'B3',
        'the interpreter hangs in the bridge process',
        'the C++ loop ends the motion after 100 ms',
        (f'{FRANKA}test_a_hung_interpreter',),
    ),
    Row(
        'B4',
        'bridge restarted while the arm moves, or while a fault is latched',
        'starts inactive, never arms itself, first command is rest',
        (f'{ROS}test_bridge_rows.py::test_b4',),
    ),
    Row(
        'B5',
        'SIGINT, SIGTERM, Ctrl-C twice',
        'S, exit code 0 within 3 s',
        (f'{ROS}test_bridge_rows.py::test_b5', f'{BRIDGE}test_sigterm_brakes_before'),
    ),
    Row(
        'B6',
        'two bridges, or another publisher of commands',
        'S and an error within 500 ms; the second bridge refuses to arm',
        (
            'test/ros/test_graph_monitor.py::test_a_second_publisher_is_named_and_gone_when_it_ends',
            'test/ros/test_graph_monitor.py::test_a_second_bridge_of_the_very_same_name_is_found',
        ),
    ),
    Row(
        'B7',
        'repeated automatic recoveries',
        'at most 3 in 10 minutes; never armed again without an operator',
        (f'{PURE}test_state_machine.py::test_after_a_fault_motion_needs_a_disarm_and_an_arm',),
    ),
    Row(
        'S1',
        'joint states stop',
        'S; onset 50 ms after the last one, 10 ms more at most (backend forward), by the '
        "trajectory's delay later with backend trajectory",
        (
            f'{CAMPAIGN}test_fault[s1',
            f'{CAMPAIGN}test_s1',
            f'{BRIDGE}test_stale_joint_states_are_braked_to_rest',
        ),
    ),
    Row(
        'S2',
        'frozen, duplicated or replayed joint states',
        'detected while the arm is commanded to move; S',
        (
            f'{PURE}test_monitors.py::test_frozen_joint_states_are_detected_in_time',
            f'{CAMPAIGN}test_fault[s2',
        ),
    ),
    Row(
        'S3',
        'joint states delayed, dropped, reordered, doubled',
        'late ones are dropped; older than 50 ms: S',
        (
            f'{PURE}test_monitors.py::test_lost_late_and_duplicated_messages_trip_no_monitor',
            f'{PURE}test_monitors.py::test_messages_out_of_order_are_ignored',
            f'{CAMPAIGN}test_fault[s1',
        ),
    ),
    Row(
        'S4',
        'permuted, partial, renamed, doubled joints; NaN; jumps',
        'mapped by name, or refused; a jump: S',
        (
            f'{ROS}test_state_rows.py::test_s4',
            f'{CAMPAIGN}test_fault[s4',
            'test/unit/robots/test_robot.py::test_joint_states_that_cannot_be_used_are_errors',
            f'{PURE}test_monitors.py::test_a_jump_is_a_step_beyond_tolerance_and_velocity_limit',
            f'{PURE}test_monitors.py::test_velocities_that_contradict_positions_are_named',
            'test/ros/test_joint_states.py',
        ),
    ),
    Row(
        'S5',
        'bias, noise, outliers of joint states',
        'commands stay within limits',
        (f'{ROS}test_state_rows.py::test_s5',),
    ),
    Row(
        'S6',
        'joint states of another robot',
        'refused: never armed',
        (f'{ROS}test_state_rows.py::test_s6',),
    ),
    Row(
        'C1',
        'wall clock set by an hour, stamps of 0 and of the future',
        'no effect on the watchdog; plans from the future are rejected',
        (f'{ROS}test_clock_rows.py::test_c1',),
        'NTP slewing of the whole machine: needs its clock',
    ),
    Row(
        'C2',
        'use_sim_time: /clock stops or jumps',
        'the watchdog trips nevertheless; S',
        (f'{ROS}test_clock_rows.py::test_c2',),
    ),
    Row(
        'C3',
        'no processor time',
        'stop trajectory or S; commands stay within limits',
        (f'{ROS}test_bridge_rows.py::test_c3',),
        'cgroup limits, swap and throttling of real-time tasks: needs a machine of its own; '
        'half an hour each',
    ),
    Row(
        'N1',
        'incompatible QoS; other middlewares',
        'reported within 2 s, with the required change',
        (
            'test/ros/test_graph_monitor.py::test_a_publisher_that_cannot_be_heard_is_told_what_to_change',
            'test/ros/test_graph_monitor.py::test_a_listener_that_cannot_hear_us_is_told_what_to_change',
            'test/ros/test_graph_monitor.py::test_a_subscriber_with_a_deadline_names_what_does_not',
        ),
        'Cyclone DDS and Zenoh: not among the wheels of rclpy',
    ),
    Row(
        'N2',
        'delay, loss, partition of the network',
        'S; arming again after',
        (f'{CAMPAIGN}test_fault[p4', f'{CAMPAIGN}test_fault[s1'),
        'netem: needs a kernel with it and its own network; to the bridge a partition is the '
        'absence of plans and joint states, which is tested',
    ),
    Row(
        'N3',
        'flood of messages, 10 MB strings, wrong types',
        'the bridge keeps its rate and does not grow; invalid messages are dropped',
        (f'{ROS}test_bridge_rows.py::test_n3', f'{FUZZ}test_messages.py'),
        'ten minutes of it: the test takes seconds',
    ),
    Row(
        'N4',
        'FCI: reset, losses, reflex, user stop',
        'reported within 100 ms, held; the process keeps running',
        (
            f'{FRANKA}test_a_dead_robot',
            f'{FRANKA}test_a_reflex',
            f'{FRANKA}test_a_user_stop',
        ),
        'gripper calls and the Desk token: need a real robot',
    ),
    Row(
        'L1',
        'every lifecycle transition, idle, moving and faulted',
        'S before it is inactive; no motion unless active; no crash',
        (f'{ROS}test_lifecycle_rows.py::test_l1', f'{BRIDGE}test_it_brakes_when_deactivated'),
    ),
    Row(
        'L2',
        'the controller is switched off under the bridge, and on again after 30 to 200 ms',
        'S; the arm makes no step of more than 1 mrad',
        (
            f'{CAMPAIGN}test_fault[l2',
            'test/ros/test_controller_monitor.py::test_an_arm_that_stops_with_its_controller',
            'test/ros/test_controller_monitor.py::test_nothing_is_to_be_sent_to_a_silent',
            f'{PURE}test_monitors.py::test_a_blocked_or_runaway_arm_is_detected',
        ),
        'a controller_manager: not among the wheels; docs/bridge.md has what a real one did',
    ),
    Row(
        'L3',
        "another client's goal for the same controller, such as MoveIt's",
        'S; refused when armed',
        (
            f'{CAMPAIGN}test_fault[l3',
            'test/ros/test_controller_monitor.py::test_a_goal_of_another_client',
        ),
    ),
    Row(
        'L4',
        'the controller scales the speed, as by the slider of a UR',
        'S; refused when armed',
        (
            f'{CAMPAIGN}test_fault[l4',
            'test/ros/test_controller_monitor.py::test_a_slow_scaled_or_wrong_controller_is_refused',
            f'{PURE}test_monitors.py::test_a_slowed_robot_is_named_by_the_share_of_its_commands',
        ),
    ),
    Row(
        'L5',
        'the controller gets no processor time beside the planner',
        'refused when armed',
        ('test/ros/test_controller_monitor.py::test_a_starved_controller_is_refused',),
    ),
    Row(
        'Y1',
        'fuzzed YAML, bombs',
        'refused with key and reason',
        (f'{FUZZ}test_yaml.py',),
    ),
    Row(
        'Y2',
        'limits looser than published',
        'refused, unless accepted, and logged',
        ('test/unit/robots/test_franka_limits.py::test_a_looser_limit_is_refused_by_name',),
    ),
    Row(
        'Y3',
        'malicious models and paths',
        'confined, capped, no plugins, no pickle',
        ('test/unit/model/test_mjcf_security.py',),
    ),
    Row(
        'X1',
        'unauthorized publisher under SROS2 Enforce',
        'nothing is delivered',
        ('test/ros/test_policy.py::test_the_graph_does_what_the_policy_allows',),
        'Enforce mode: the middleware of the wheels is built without DDS security',
    ),
    Row(
        'X2',
        'supply chain',
        'pinned hashes, audit, SBOM',
        (),
        'a gate of the release, not a test of the code',
    ),
    Row(
        'X3',
        'an unauthorized node calls services or sets parameters',
        'a generated policy denies all but what is listed',
        ('test/ros/test_policy.py::test_only_the_bridge_may_command',),
        'enforcement: see X1',
    ),
    Row(
        'A1',
        'arm start, enabling switch released',
        'velocity ramps from 0; loss of the switch: S',
        (
            f'{BRIDGE}test_an_enabling_switch_has_to_be_held',
            f'{PURE}test_commander.py::test_the_enabling_switch_must_be_held',
            f'{CAMPAIGN}test_fault[p1',
        ),
    ),
    Row(
        'A2',
        'towards joint limits',
        'slowed down in time; never beyond',
        (
            f'{PURE}test_oracle.py::test_no_target_exceeds_a_limit_and_braking_never_reverses',
            f'{PURE}test_jerk_limiter.py::test_full_speed_towards_an_end_stop_ends_at_the_margin',
            f'{PURE}test_stop_trajectory.py::test_stops_near_end_stops_stay_within_limits',
        ),
        'singularities and self-collision: the planner avoids them by its costs, the bridge does '
        'not check them',
    ),
    Row(
        'A3',
        'collision, a human pushes',
        'external torque above its threshold: S',
        (f'{FRANKA}test_a_pushed_arm',),
    ),
    Row(
        'A4',
        'disk full, file descriptors exhausted, log folder read-only',
        'control unaffected, or a clean refusal',
        (f'{ROS}test_bridge_rows.py::test_a4', f'{ROS}test_resource_rows.py::test_a4'),
        'GPU: none is used',
    ),
)
