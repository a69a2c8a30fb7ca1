"""Offline: from recorded motion to a prior."""
