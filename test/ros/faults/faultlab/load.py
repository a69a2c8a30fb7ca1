"""Load for processes of their own: what they run must be imported from a package."""

import time


def burn():
    """Want the processor, for ever."""
    while True:
        sum(range(10_000))


def flood(domain, over):
    """Publish nonsense until it is over: plans, 10 MB strings, and types nobody asked for."""
    import rclpy
    from rclpy.node import Node
    from std_msgs.msg import String
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    from emppi_ros.nodes import qos

    context = rclpy.Context()
    context.init(domain_id=domain)
    node = Node('flood', context=context)
    plans = node.create_publisher(JointTrajectory, 'emppi/plan', 10)
    tasks = node.create_publisher(String, 'emppi/task', qos.LATCHED)
    wrong = node.create_publisher(String, 'joint_states', 10)
    bad = JointTrajectory(joint_names=['x'] * 7, points=[JointTrajectoryPoint()] * 3)
    long = String(data='x' * 10_000_000)
    count = 0
    while not over.is_set():
        for _ in range(100):
            plans.publish(bad)
            wrong.publish(String(data='?'))
            count += 1
        if count % 4000 == 0:
            tasks.publish(long)
        time.sleep(0.01)  # ten thousand a second
    node.destroy_node()
    context.try_shutdown()
