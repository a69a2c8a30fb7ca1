"""Identification of real mechanisms from recordings that others published."""
