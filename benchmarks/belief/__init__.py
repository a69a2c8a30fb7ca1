"""The benchmark `emppi bench belief`: estimators of parameters in worlds, scored over time."""
