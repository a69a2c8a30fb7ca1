"""What a stage grasps is grasped in the simulator's world and in the belief's predictions."""

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from geometry_msgs.msg import PoseStamped
from std_msgs.msg import String

from emppi_ros.nodes.belief.node import BeliefNode
from emppi_ros.nodes.bridge.node import BridgeNode
from emppi_ros.nodes.common import qos
from emppi_ros.nodes.planner.node import PlannerNode
from emppi_ros.nodes.simulator.node import SimulatorNode


def test_simulator_and_belief_grasp_as_the_stage_says_and_let_go(harness):
    harness.publish_task('panda_drawer')
    stage = harness.publisher(String, 'emppi/stage', qos.LATCHED)
    simulator, belief = harness.make(SimulatorNode), harness.make(BeliefNode)
    harness.spin_until(lambda: simulator._robot is not None and belief.state == 'active')

    def held():
        return [
            simulator._robot.data.eq_active.tolist(),
            belief.session.filter._predictor._ensemble._world.eq_active.tolist(),
        ]

    assert held() == [[0], [0]]
    stage.publish(String(data='pull'))
    harness.spin_until(lambda: held() == [[1], [1]])
    stage.publish(String(data='another task'))
    stage.publish(String(data='reach'))
    harness.spin_until(lambda: held() == [[0], [0]])


def test_the_bridge_tolerates_what_the_stage_tolerates(harness):
    harness.publish_task('panda_drawer')
    stage, bridge = harness.publisher(String, 'emppi/stage', qos.LATCHED), harness.make(BridgeNode)
    harness.spin_until(lambda: bridge.state == 'active')

    def tolerates(residual):
        return lambda: bridge.command_loop.commander.tolerated_residual == residual

    assert tolerates(0.1)()
    stage.publish(String(data='pull'))
    harness.spin_until(tolerates(0.6))
    harness.spin_until(lambda: harness.says('bridge')[2].get('tolerated_residual') == '0.6')
    stage.publish(String(data='another task'))
    stage.publish(String(data='reach'))
    harness.spin_until(tolerates(0.1))
    stage.publish(String(data='pull'))
    harness.spin_until(tolerates(0.6))
    harness.publish_task('panda_push')  # a switch of the task ends its stages
    harness.spin_until(tolerates(0.1))


def test_the_planner_tells_its_stage_and_objects_that_hang_are_tracked(harness):
    stages = harness.listen(String, 'emppi/stage', qos.LATCHED)
    poses = harness.listen(PoseStamped, 'tracking/handle', qos.SENSOR)
    harness.make(PlannerNode, task='panda_drawer')
    harness.make(SimulatorNode)
    harness.spin_until(lambda: stages and poses)
    assert stages[-1].data == 'reach'
    assert harness.says('planner')[2]['stage'] == 'reach'
    # the drawer is closed: where the scene has its handle, within ten standard deviations
    place = poses[-1].pose.position
    assert [place.x, place.y, place.z] == pytest.approx([0.58, 0.0, 0.2], abs=0.02)
