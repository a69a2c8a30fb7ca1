"""Planner, belief and closed loop of a task, without ROS."""
