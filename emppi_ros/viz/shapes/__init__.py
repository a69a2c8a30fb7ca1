"""What a person is shown, as plain shapes: no ROS, no renderer."""
