"""Row P3: a cost that raises."""

from unittest.mock import Mock

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')


@pytest.mark.slow
def test_p3_an_exception_in_the_cost_is_no_plan_and_the_node_lives(harness, monkeypatch):
    from sensor_msgs.msg import JointState
    from trajectory_msgs.msg import JointTrajectory

    from emppi_ros.nodes.belief.node import BeliefNode
    from emppi_ros.nodes.common.diagnostics import ERROR
    from emppi_ros.nodes.common.graph import NodeSpec
    from emppi_ros.nodes.planner.node import PlannerNode

    plans = harness.listen(JointTrajectory, 'emppi/plan')
    applied = harness.publisher(JointState, 'emppi/applied')
    planner = harness.make(PlannerNode, task='cartpole_swingup')
    harness.make(BeliefNode)
    harness.spawn(NodeSpec('simulator'))
    robot = planner.task.robot
    message = JointState(name=list(robot.commanded), effort=[0.0] * len(robot.commanded))

    def say():
        message.header.stamp = harness.tester.get_clock().now().to_msg()
        applied.publish(message)

    harness.feeds.append(say)
    harness.spin_until(lambda: len(plans) > 5)

    for error in (RuntimeError, MemoryError):
        broken = Mock(side_effect=error(f'cost: {error.__name__}'))
        with monkeypatch.context() as patch:
            patch.setattr(planner.session, 'plan_from', broken)
            harness.spin_until(lambda: harness.says('planner')[0] == ERROR)
            harness.spin_until(lambda: error.__name__ in harness.says('planner')[1])  # noqa: B023
            assert not planner.failed and planner.state == 'active'
            count = len(plans)
            harness.spin_for(0.2)
            assert len(plans) <= count + 1  # one may have been on its way
        harness.spin_until(lambda: len(plans) > count + 5)  # noqa: B023
