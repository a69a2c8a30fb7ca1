"""Shapes that show a task's state, belief and plan, independent of ROS and of any renderer."""
