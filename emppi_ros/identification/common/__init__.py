"""What all identification methods share: the plant, options, samples, checkpoints and figures."""
