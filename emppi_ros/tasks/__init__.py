"""A task: scene, uncertain parameters, weighted residuals and success, from one YAML file."""
