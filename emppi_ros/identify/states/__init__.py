"""Joint estimation of states and parameters from inverse dynamics (method `states`)."""
