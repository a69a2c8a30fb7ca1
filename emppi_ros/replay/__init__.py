"""Runs that were recorded, run again: the same bits, or where they part. No ROS in here."""
