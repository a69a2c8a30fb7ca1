"""Ensemble model predictive path integral control (EMPPI) with an online belief, for ROS 2."""

__version__ = '0.1.0'
