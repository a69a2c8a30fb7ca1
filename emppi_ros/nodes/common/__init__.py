"""What all nodes share: lifecycle, parameters, QoS, conversions, processes."""
