"""Print mean and standard deviation of each parameter from the topic emppi/belief."""

import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import PointCloud2, PointField

FORMATS = {PointField.FLOAT32: 'f4', PointField.FLOAT64: 'f8'}
# The belief is latched: a late subscriber receives the last message.
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def print_belief(message: PointCloud2) -> None:
    """Print one line per parameter. Each point is a particle: its weight and parameters."""
    order = '>' if message.is_bigendian else '<'
    layout = np.dtype({
        'names': [field.name for field in message.fields],
        'formats': [order + FORMATS[field.datatype] for field in message.fields],
        'offsets': [field.offset for field in message.fields],
        'itemsize': message.point_step,
    })  # fmt: skip
    particles = np.frombuffer(message.data, layout)
    weights = particles['weight'] / particles['weight'].sum()
    for name in layout.names[1:]:  # the first field is the weight
        mean = weights @ particles[name]
        sd = np.sqrt(weights @ (particles[name] - mean) ** 2)
        print(f'{name}: mean {mean:.4g}, sd {sd:.4g}', flush=True)


rclpy.init()
node = rclpy.create_node('belief_subscriber')
node.create_subscription(PointCloud2, 'emppi/belief', print_belief, LATCHED)
try:
    while rclpy.ok():
        rclpy.spin_once(node, timeout_sec=1.0)  # `spin` may miss a signal, and never return
except (KeyboardInterrupt, ExternalShutdownException):
    pass
