"""Robots: joints, limits and topics from `config/robots`, and what their makers publish."""
