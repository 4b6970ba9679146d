"""When pair steps are tried on points with few features, beside which there is an interior-point method.

Where most weights end at a bound, or the classes are far apart, pair steps on the matrix of a few hundred
points take a fraction of the time of an interior-point method, and where penalties are large many times
as long. Both times are compared in units of an entry of the matrix, about a nanosecond.
"""

from __future__ import annotations

FEATURES_PER_ENTRY = 16
"""Features of an inner product that takes as long as the rest of an entry of the matrix."""

STEP_ENTRIES, STEP_ENTRIES_PER_POINT = 250, 0.4
"""Time of a pair step, and that of each point in it."""

INTERIOR_POINT_ENTRIES = 10_000_000
"""Time of the interior-point method besides its matrices."""

MATRIX_SHARE, STEPS_SHARE = 0.25, 0.4
"""Shares of the time of the interior-point method that the matrix and the steps may take."""


def is_worth_a_trial(m: int, n_features: int) -> bool:
    """Return whether the matrix of m points takes little of the time of the interior-point method."""
    matrix = m * m * (1.0 + n_features / FEATURES_PER_ENTRY)
    return matrix <= MATRIX_SHARE * _interior_point_entries(m, n_features)


def max_trial_steps(m: int, n_features: int) -> int:
    """Return the number of pair steps that take little of the time of the interior-point method."""
    entries = STEPS_SHARE * _interior_point_entries(m, n_features)
    return int(entries / (STEP_ENTRIES + STEP_ENTRIES_PER_POINT * m))


def _interior_point_entries(m: int, n_features: int) -> float:
    return INTERIOR_POINT_ENTRIES + float(m) * n_features**2
