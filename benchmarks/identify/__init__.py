"""Methods of identification on data with known truth: one module for each family of cells."""
