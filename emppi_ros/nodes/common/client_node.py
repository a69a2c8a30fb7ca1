"""The node of a program by which somebody looks, and asks."""

import rclpy
from rclpy.node import Node
from rclpy.parameter import Parameter


def node(name: str, namespace: str, context: rclpy.Context) -> Node:
    """Return a node that serves nothing: one enclave, the operator's, fits all such programs."""
    return Node(
        name,
        namespace=namespace,
        context=context,
        start_parameter_services=False,
        parameter_overrides=[Parameter('start_type_description_service', value=False)],
    )
