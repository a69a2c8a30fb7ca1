"""What happened in a run, as plots and as a video."""
