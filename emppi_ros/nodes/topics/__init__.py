"""Topics that several nodes use, one module each."""
