"""Extensions of this site: a reference made from the code, equations as MathML."""
