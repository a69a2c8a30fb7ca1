"""Rigid-body parameters of an arm and its payload, from joint torques."""
