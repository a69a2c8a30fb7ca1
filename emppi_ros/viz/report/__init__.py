"""Reports of runs: plots, pictures and videos."""
