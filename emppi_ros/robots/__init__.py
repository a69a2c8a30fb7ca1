"""Robots: joints, limits and topics from `config/robots`, and published limits."""
