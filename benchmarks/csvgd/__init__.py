"""The experiments of CSVGD (Heiden et al., ICRA 2022), simulated and on real recordings."""
