"""Joint estimation of states and parameters by discrete inverse dynamics (method `states`)."""
