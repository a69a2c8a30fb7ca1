"""Create the node of a command-line program."""

import rclpy
from rclpy.node import Node
from rclpy.parameter import Parameter


def create(name: str, namespace: str, context: rclpy.Context) -> Node:
    """Return a node without services, so that all programs can share one SROS 2 enclave."""
    return Node(
        name,
        namespace=namespace,
        context=context,
        start_parameter_services=False,
        parameter_overrides=[Parameter('start_type_description_service', value=False)],
    )
