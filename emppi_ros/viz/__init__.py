"""Visualization: shapes for rviz and the web page, plots, pictures and videos of runs."""
