"""Code shared by all nodes: lifecycle, parameters, QoS, conversions, processes."""
