"""Benchmark `emppi bench identify`: identification on data with known truth."""
