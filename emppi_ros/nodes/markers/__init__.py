"""The node `markers`: belief, rollouts and objects for rviz."""
