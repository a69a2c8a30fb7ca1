"""The ROS 2 side: nodes, messages, the graph. The only folder that imports ROS."""
