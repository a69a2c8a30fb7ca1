"""Joints and kinematic trees from tracked poses (Heiden et al., 2022, Algorithm 1)."""
