"""Identification on data with known truth."""
