"""How samples become a plan: sampling and weighting, and measures of risk over models."""
