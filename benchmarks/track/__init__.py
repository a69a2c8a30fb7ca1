"""Accuracy of tracking in depth videos, beside iterative closest points."""
