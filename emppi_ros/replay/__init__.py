"""Bags: reading, writing, reporting and replaying recorded runs, without ROS."""
