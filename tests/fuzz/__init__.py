"""Random problems, and judges of the answers that share no code with the library.

``python -m tests.fuzz`` runs a campaign. `random_problems` draws, `problem` declares them,
`campaign` solves them in a process of its own, `judge` decides, `reproduce` makes a failure small
and writes a script.
"""
