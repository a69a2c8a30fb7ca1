"""Poses of rigid parts from depth images, by inverse rendering (Heiden et al., 2022, III-B)."""
