"""Inertial parameters of the bodies of an arm, from joint torques."""
