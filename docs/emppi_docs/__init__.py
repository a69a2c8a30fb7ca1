"""Sphinx extensions of this site: the generated reference, and equations as MathML."""
