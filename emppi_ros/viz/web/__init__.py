"""The live page: what is known of a task, in a browser. No ROS; viser serves it."""
