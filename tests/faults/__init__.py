"""Faults from outside: signals, limits, callbacks, kernels and processes that misbehave.

The tests take a selection of each. ``python -m tests.faults`` interrupts solves at as many random times
as it is told.
"""
