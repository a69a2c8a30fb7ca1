"""Load for processes of their own: what they run must be imported from a package."""

import time

LONG_S, LONG = 0.2, 10_000_000  # how often a string of so many bytes is published


def burn():
    """Want the processor, for ever."""
    while True:
        sum(range(10_000))


def flood(domain, over):
    """Publish nonsense until it is over: plans, strings of 10 MB, and types nobody asked for."""
    import rclpy
    from rclpy.node import Node
    from std_msgs.msg import String
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    from emppi_ros.nodes.common import qos

    context = rclpy.Context()
    context.init(domain_id=domain)
    node = Node('flood', context=context)
    plans = node.create_publisher(JointTrajectory, 'emppi/plan', 10)
    tasks = node.create_publisher(String, 'emppi/task', qos.LATCHED)
    wrong = node.create_publisher(String, 'joint_states', 10)
    bad = JointTrajectory(joint_names=['x'] * 7, points=[JointTrajectoryPoint()] * 3)
    long, last = String(data='x' * LONG), 0.0
    while not over.is_set():
        for _ in range(100):
            plans.publish(bad)
            wrong.publish(String(data='?'))
        if time.monotonic() - last > LONG_S:
            last = time.monotonic()
            tasks.publish(long)
        time.sleep(0.01)  # up to ten thousand a second
    node.destroy_node()
    context.try_shutdown()
