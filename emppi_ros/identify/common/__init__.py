"""What all identification methods share: recordings, the plant, priors and figures."""
