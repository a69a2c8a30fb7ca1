"""MJCF scenes, shipped as package data."""
