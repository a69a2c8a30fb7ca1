"""The live web page of a task, served by viser; independent of ROS."""
