"""Measurements on a GPU: `make gpu`, eight minutes at most."""
