"""Command-line tools that need ROS: demo, recorder, web source, observer benchmark."""
