"""Errors, configuration, YAML, paths and log-weight arithmetic: no physics and no ROS."""
