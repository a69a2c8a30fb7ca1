"""The command `emppi calibrate`: whether a task's belief is as certain as it is right."""
