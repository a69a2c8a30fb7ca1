"""From plans to commands that a robot can follow: checks, limits, watchdog, braking. No ROS."""
