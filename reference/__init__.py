"""The exact answer to every instance, by other means than qpsvm.

Each formulation is written anew from the textbook, primal and dual, in cvxpy and solved by Clarabel
at tight settings; the answer is polished on its active set in extended precision, and believed only
when an upper and a lower bound of the optimal value, computed here, meet. Nothing in this package
imports qpsvm or shares a formula with it.

    reference.answer(problem)          Clarabel, verified; raises UnverifiedError otherwise
    reference.answer_osqp(problem)     OSQP on the standard form, with its own verified residual

A problem is an instance of the catalogue, or one that a user declared, as `qpsvm.HingeDual(K, y)`.
"""

from problems.discovery import modules_of
from reference.answer import Reference, UnverifiedError, answer, answer_osqp
from reference.textbook import TEXTBOOK_CLASSES

__all__ = ["TEXTBOOK_CLASSES", "Reference", "UnverifiedError", "answer", "answer_osqp"]

modules_of("reference")  # each enters what it answers
