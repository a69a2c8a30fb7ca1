"""
Joint estimation of states and parameters by discrete inverse dynamics (method `states`).

Numbers of equations and sections are those of *Joint parameter and state estimation for
regularized time-discrete multibody dynamics*.
"""
