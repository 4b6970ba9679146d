"""Squared distances of points from a center, by numpy and by compiled code."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm.gram.translation import square_distances
from qpsvm.numerics.products import MIN_ENTRIES_FOR_COMPILED_PASS

N_FEATURES = 5


def unaligned(X):
    """Return a copy of X at an odd address."""
    memory = np.zeros(X.nbytes + 1, np.uint8)
    copy = np.frombuffer(memory.data, X.dtype, X.size, offset=1).reshape(X.shape)
    copy[...] = X
    assert not copy.flags.aligned
    return copy


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, unaligned, sp.csr_matrix])
@pytest.mark.parametrize("n_points", [40, MIN_ENTRIES_FOR_COMPILED_PASS // N_FEATURES + 3])
def test_square_distances_are_those_of_exact_differences(rng, dtype, form, n_points):
    X = (1e6 + rng.standard_normal((n_points, N_FEATURES))).astype(dtype)
    center = 1e6 + rng.standard_normal(N_FEATURES)
    exact = (X.astype(np.longdouble) - center) ** 2
    found = square_distances(form(X), center)
    np.testing.assert_allclose(found, exact.sum(axis=1).astype(float), rtol=1e-14)
