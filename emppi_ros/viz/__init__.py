"""Visualization: shapes of what is believed, plots and videos of runs, and the web page."""
