"""SIMD kernels of the inner SMO against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm.numerics.jit import vectorized
from qpsvm.numerics.vector_shape import VECTOR_LANES
from qpsvm.solvers.smo import inner_smo_simd
from qpsvm.solvers.smo.inner_smo_simd import (
    argextremes,
    second_index,
    update_gradient,
    update_gradient_of_two,
)

ROW_LENGTHS = (VECTOR_LANES, VECTOR_LANES + 1, 3 * VECTOR_LANES - 1, 200)
DTYPE_PAIRS = ((np.uint16, np.float32), (np.float32, np.float32), (np.float64, np.float64))


@vectorized
def find_second_index(row, side, diagonal, low_blocked, e, low, terms):
    return second_index(row, side, diagonal, low_blocked, e, low, terms)


@vectorized
def find_argextremes(e, up_blocked, low_blocked):
    return argextremes(e, up_blocked, low_blocked)


@vectorized
def take_step(row_i, row_j, side, coefficients, e, up_blocked, low_blocked):
    return update_gradient(row_i, row_j, side, coefficients, e, up_blocked, low_blocked)


@vectorized
def take_step_of_two(row_i, row_j, side, coefficients, e, up_blocked, low_blocked):
    flags_0, flags_1 = (up_blocked[0], low_blocked[0]), (up_blocked[1], low_blocked[1])
    return update_gradient_of_two(row_i, row_j, side, coefficients, e, *flags_0, *flags_1)


def rows(rng, kind, n):
    """Return two rows of kernel values, longer than the part that is read, and their unit."""
    K = rng.random((2, n + 3))
    if kind == np.uint16:
        return np.rint(K * 65535).astype(kind), 1 / 65535
    return K.astype(kind), 1.0


def drawn(rng, n, kind):
    """Return signs, diagonal, blocked flags of I_up and I_low, and e."""
    side = np.where(rng.random(n) < 0.5, 1.0, -1.0).astype(kind)
    diagonal = rng.uniform(1.0, 2.0, n).astype(kind)
    up_blocked, low_blocked = (rng.random((2, n)) < 0.4).astype(np.int8)
    return side, diagonal, up_blocked, low_blocked, rng.standard_normal(n).astype(np.float32)


@pytest.mark.parametrize("row, kind", DTYPE_PAIRS)
@pytest.mark.parametrize("n", ROW_LENGTHS)
def test_the_second_index_has_the_greatest_gain(row, kind, n, rng):
    for _ in range(20):
        K, unit = rows(rng, row, n)
        side, diagonal, _, low_blocked, e = drawn(rng, n, kind)
        low = np.float32(np.quantile(e, rng.random()))
        terms = tuple(kind(v) for v in (1.5, 2.0 * unit, 0.25 / unit, 1e-12))
        k = find_second_index(K[0], side, diagonal, low_blocked, e, low, terms)
        best = inner_smo_simd._plain_second_index(K[0], side, diagonal, low_blocked, e, low, terms)
        assert (k < 0) == (best < 0)
        if k < 0:
            continue
        curvature = 1.5 + diagonal - 2.0 * unit * side * (K[0, :n] + 0.25 / unit)
        gains = np.where(low_blocked == 0, np.maximum(e - low, 0.0) ** 2 / curvature, 0.0)
        assert low_blocked[k] == 0
        assert gains[k] >= (1.0 - 1e-3) * gains[best]


@pytest.mark.parametrize("n", ROW_LENGTHS)
def test_argextremes_are_those_of_the_plain_loop(n, rng):
    for _ in range(20):
        _, _, up_blocked, low_blocked, e = drawn(rng, n, np.float32)
        assert find_argextremes(e, up_blocked, low_blocked) == inner_smo_simd._plain_argextremes(
            e, up_blocked, low_blocked
        )
    up_blocked[:], low_blocked[:] = 1, 1
    assert find_argextremes(e, up_blocked, low_blocked) == (-1, -1)
    up_blocked[-1], low_blocked[0] = 0, 0
    assert find_argextremes(e, up_blocked, low_blocked) == (n - 1, 0)
    e[:] = np.nan
    assert find_argextremes(e, up_blocked, low_blocked) == (-1, -1)


@pytest.mark.parametrize("row, kind", DTYPE_PAIRS)
@pytest.mark.parametrize("n", ROW_LENGTHS)
def test_a_pair_step_is_added_once_everywhere(row, kind, n, rng):
    K, unit = rows(rng, row, n)
    side, _, up_blocked, low_blocked, e = drawn(rng, n, kind)
    for factor, shift in ((-1.0, 0.0), (1.0, 0.5 / unit)):
        coefficients = tuple(kind(v) for v in (0.7 * unit, factor, shift))
        right = e + side * (0.7 * unit * (K[0, :n] + factor * K[1, :n].astype(float) + shift))
        found = take_step(K[0], K[1], side, coefficients, e, up_blocked, low_blocked)
        np.testing.assert_allclose(e, right, rtol=0, atol=2e-6)
        assert found == inner_smo_simd._plain_argextremes(e, up_blocked, low_blocked)


@pytest.mark.parametrize("row, kind", DTYPE_PAIRS)
@pytest.mark.parametrize("n", ROW_LENGTHS)
def test_a_pair_step_finds_the_extremes_of_two_groups(row, kind, n, rng):
    K, unit = rows(rng, row, n)
    side, _, _, _, e = drawn(rng, n, kind)
    up_blocked, low_blocked = (rng.random((2, 2, n)) < 0.4).astype(np.int8)
    group, coefficients = rng.random(n) < 0.3, tuple(kind(v) for v in (0.7 * unit, -1.0, 0.0))
    up_blocked[0, group] = low_blocked[0, group] = 1
    up_blocked[1, ~group] = low_blocked[1, ~group] = 1
    for _ in range(3):
        right = e + side * (0.7 * unit * (K[0, :n] - K[1, :n].astype(float)))
        found = take_step_of_two(K[0], K[1], side, coefficients, e, up_blocked, low_blocked)
        np.testing.assert_allclose(e, right, rtol=0, atol=2e-6)
        for g in range(2):
            expected = inner_smo_simd._plain_argextremes(e, up_blocked[g], low_blocked[g])
            assert found[2 * g : 2 * g + 2] == expected
        up_blocked[1], low_blocked[0] = 1, 1  # then some sets are empty


CHECK_SCRIPT = (
    "import numpy as np; import tests.solvers.smo.test_inner_smo_simd as t\n"
    "rng = np.random.default_rng(1)\n"
    "for row, kind in t.DTYPE_PAIRS:\n"
    "    for n in t.ROW_LENGTHS:\n"
    "        t.test_the_second_index_has_the_greatest_gain(row, kind, n, rng)\n"
    "        t.test_a_pair_step_is_added_once_everywhere(row, kind, n, rng)\n"
    "        t.test_a_pair_step_finds_the_extremes_of_two_groups(row, kind, n, rng)\n"
    "        t.test_argextremes_are_those_of_the_plain_loop(n, rng)\n"
    "print('right')"
)


@pytest.mark.slow
def test_on_processors_with_shorter_vectors(fresh_process, tmp_path):
    code = (
        "import qpsvm.numerics.vector_shape as shape; shape.VECTOR_LANES, shape.HAS_AVX512 = 8, False\n"
        + CHECK_SCRIPT
    )
    assert fresh_process(code, cache=tmp_path).strip() == "right"


def test_without_the_compiler(fresh_process):
    assert fresh_process(CHECK_SCRIPT, NUMBA_DISABLE_JIT="1").strip() == "right"
