"""Sphinx extensions of this site: its reference is made from the code, its equations are MathML."""
